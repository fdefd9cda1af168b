"""The commands that a run's page names, as they are typed: to use it, to train it again, to go on."""

from __future__ import annotations

import tomllib
from pathlib import Path
from shlex import quote
from typing import TypedDict

from canon.contracts import KeepsVectors, NetworkLearner, Recommends
from canon.data import encodings
from canon.data.schema import Data
from canon.data.targets import Nothing, OtherText
from canon.interop import formats
from canon.tasks.base import DrawsSamples, Plays
from canon.training.run import Run
from canon.use.model import Model

_LONGEST = 60  # characters of a text in a command


class Command(TypedDict):
    use: str  # what it is for
    command: str


def training_commands(run: Run, settings: dict[str, list[tuple[str, str, str]]]) -> dict[str, str]:
    """resume, again (with what was asked for) and exact (with every setting)."""
    words = [f"canon train {run.recipe.name}"]
    for section, lines in settings.items():
        for key, value, origin in lines:
            if origin == "--data":
                words.append(f"--data {quote(tomllib.loads(f'value = {value}')['value'])}")
            elif origin in ("--set", "keyword"):
                words.append(f"--set {quote(f'{section}.{key}={value}')}")
    path = str(run.path)
    return {
        "resume": f"canon train {quote(path)} --resume",
        "again": " ".join(words),
        "exact": f"canon train {quote(str(run.path / 'recipe.toml'))} --out {quote(f'{path}-again')}",
    }


def use_commands(model: Model, data: Data) -> list[Command]:
    """What this run can be used for, each with an example of its own data where that has one."""
    run, schema, path = model.run, model.schema, quote(str(model.run.path))
    commands: list[Command] = [{"use": "score it again", "command": f"canon evaluate {path}"}]
    if isinstance(model.task, Plays):
        gif = quote(f"{run.path.name}.gif")
        record = f"canon play {path} --episodes 3 --record {gif}"
        return [
            {"use": "watch it", "command": f"canon play {path}"},
            {"use": "record it", "command": record},
            *commands,
        ]
    if isinstance(model.task, DrawsSamples):
        return [{"use": "draw samples", "command": f"canon generate {path}"}, *commands]
    if isinstance(model.learner, KeepsVectors) and isinstance(schema.target, Nothing) and schema.words is not None:
        word = quote(schema.words.words[len(schema.words.words) // 20])
        commands.insert(0, {"use": "words like another", "command": f"canon neighbors {path} {word}"})
    elif isinstance(model.learner, Recommends):
        user = _example(model, data)
        commands.insert(0, {"use": "items for a user", "command": f"canon recommend {path} --user {user}"})
        commands.insert(1, {"use": "items like others", "command": f"canon recommend {path} --items A,B"})
    else:
        example = _example(model, data)
        if isinstance(schema.target, OtherText):
            commands.insert(0, {"use": "translate", "command": f"canon translate {path} {example}"})
            commands.insert(1, {"use": "a whole file", "command": f"canon translate {path} FILE.txt --out OUT.txt"})
        elif _continues(model):
            commands.insert(0, {"use": "go on with a text", "command": f"canon generate {path} {example}"})
        else:
            commands.insert(0, {"use": "predict", "command": f"canon predict {path} {example}"})
            whole = f"canon predict {path} FILE --out predicted.csv"
            commands.insert(1, {"use": "a whole file", "command": whole})
        python = f"canon.load({str(run.path)!r}).predict(…)"
        commands.append({"use": "in Python", "command": f"import canon; {python}"})
    return commands + _conversions(model)


def _continues(model: Model) -> bool:
    """Whether it goes on with a text."""
    if not isinstance(model.learner, NetworkLearner):
        return False
    from canon.nn.decoding import LanguageModel

    return isinstance(model.network, LanguageModel)


def _example(model: Model, data: Data) -> str:
    """An argument: a text of the test set, or a file of the data."""
    encoding = encodings.find(model.schema.encoding)
    columns = next((data.splits[name] for name in ("test", "valid", "train") if name in data.splits), {})
    if encoding.takes_text:
        text = " ".join(model.schema.shown(columns["input"], 0).split()) if columns else ""
        return quote(text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0]) if text else '"A TEXT"'
    files = [record.name for record in data.files if Path(record.name).is_file()]
    return quote(files[0]) if files else encoding.example_file


def _conversions(model: Model) -> list[Command]:
    """For other programs: the formats that a network of any size can be written as."""
    run, written = model.run, {known.name for known in formats.written_by(model.run.recipe.system)}
    path, name = quote(str(run.path)), run.path.name
    commands: list[Command] = []
    if "onnx" in written:
        target = _onnx_target(model, name)
        if target:
            command = f"canon convert {path} {quote(target)} --to onnx"
            commands.append({"use": "for onnxruntime", "command": command})
    if "word2vec-text" in written:
        command = f"canon convert {path} {quote(f'{name}.txt')} --to word2vec-text"
        commands.append({"use": "for other programs", "command": command})
    return commands


def _onnx_target(model: Model, name: str) -> str:
    """A file, or of texts a folder; "" where no graph can be made."""
    if not model.schema.tokenizers:
        return f"{name}.onnx"
    from canon.interop.onnx_text import can_write

    return f"{name}-onnx" if can_write(model.network, model.schema) else ""
