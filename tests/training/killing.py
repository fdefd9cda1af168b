"""Kills a training run at random moments, resumes it each time, and says whether it ends as an unkilled one.

python -m tests.training.killing FOLDER KILLS SEED. The parent never computes with torch, so it can fork children that
have torch loaded already: a killed attempt costs a fraction of a second.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

CHANGES = {
    "train.steps": 300,
    "train.batch": 32,
    "train.log_every": 3,
    "train.evaluate_every": 11,
    "train.checkpoint_every": 7,
    "train.threads": 1,
    "train.device": "cpu",
}


def start(out: Path) -> int:
    """A child that trains, or goes on training, in `out`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            from canon.training.trainer import train

            train("linear/digits-mlp", out=out, resume=True, changes=CHANGES, quiet=True)
            code = 0
        finally:
            os._exit(code)
    return child


def logged(out: Path) -> int:
    """Lines of the run's log."""
    metrics = out / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def main(folder: str, kills: int, seed: int) -> None:
    import sklearn.datasets  # noqa: F401  loaded once, for all children
    import torch._dynamo  # noqa: F401

    import canon.data.read
    import canon.metrics.classification
    import canon.nn.counting
    import canon.training.trainer  # noqa: F401
    from canon.runs import checkpoint

    chance = random.Random(seed)
    out = Path(folder) / "killed"
    _, status = os.waitpid(start(Path(folder) / "whole"), 0)
    assert status == 0, "the unkilled run failed"
    whole = logged(Path(folder) / "whole")
    moments: list[int] = []  # newest checkpoint when the kill came
    unreadable, ends = [], 0
    while len(moments) < kills or out.exists():
        child = start(out)
        if len(moments) < kills:
            # By the log's lines, not by seconds: the same moments on a machine of any speed and load.
            lines = logged(out) + chance.randrange(whole // 4)
            while logged(out) < lines and not ended(child):
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        for path in checkpoint.newest_first(out / "checkpoints"):
            try:
                checkpoint.verify(path)
            except checkpoint.Damaged as damage:
                unreadable.append(str(damage))
        if os.WIFSIGNALED(status):
            newest = next(checkpoint.newest_first(out / "checkpoints"), None)
            moments.append(checkpoint.step_of(newest) if newest else 0)
        else:  # came to its end before the kill: kept for comparison, and the next attempt begins again
            assert os.WEXITSTATUS(status) == 0, "a resumed run failed"
            out.rename(Path(folder) / f"end-{ends}")
            ends += 1
    print(json.dumps({"moments": moments, "unreadable": unreadable, "ends": ends}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
