"""From what a user names to an environment: gymnasium's ids, MODULE:ID, FILE.py:NAME, plugins, and canon's own."""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

from canon.errors import CanonError, border, reason, unknown
from canon.user_code import module_of

BUILTIN = ("five-state-walk", "short-corridor")
GROUP = "canon.environments"  # of entry points: names of classes or functions that make an environment
_LIMIT = 1000  # steps of an episode where nobody sets a limit
_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)")
_ID = re.compile(r"(?:[A-Za-z_][\w.]*:)?[\w./-]+-v\d+")


def recognised(source: str) -> str:
    """Why a name is that of an environment, as a sentence; "" if it is not."""
    if source in BUILTIN:
        return f"{source} is an environment of canon"
    if _FILE.fullmatch(source):
        return f"{source} is a class or function in a file of Python"
    if _ID.fullmatch(source):
        return f"{source} ends in a version, as gymnasium's ids do"
    if re.fullmatch(r"[\w.-]+", source) and source in _plugins():
        return f"{source} is a plugin's"
    if _versions(source):
        return f"{source} is an id of gymnasium without its version"
    return ""


def _versions(name: str) -> list[str]:
    """The ids of gymnasium that a name without a version may mean."""
    if find_spec("gymnasium") is None or not name.isidentifier():
        return []
    return [known for known in gymnasium().registry if name.lower() == known.lower().partition("-v")[0]]


@cache
def _plugins() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=GROUP)}


def file_of(source: str) -> Path | None:
    """The file of Python that holds the class or function, where the source names one."""
    match = _FILE.fullmatch(source)
    return Path(match["path"]).expanduser() if match else None


def gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise CanonError('Environments need gymnasium; install it with pip install "deepcanon[control]".') from None
    return gymnasium


@dataclass(frozen=True)
class Opener:
    """Makes copies of one environment. Plain settings, so that it can be compared and written down."""

    source: str
    arguments: dict[str, Any] = field(default_factory=dict)
    max_steps: int = 0  # 0: the environment's own limit

    def open(self, render_mode: str = "") -> tuple[Any, int]:
        """A gymnasium environment without its time limit, and that limit."""
        arguments = {key: _listed(value) for key, value in self.arguments.items()}
        if render_mode:
            arguments["render_mode"] = render_mode
        if (path := file_of(self.source)) is not None:
            environment, limit = self._built(_maker_in(path, self.source), arguments), 0
        elif self.source in BUILTIN:
            gymnasium()
            from canon.data.environments.builtin import CLASSES

            environment, limit = self._built(CLASSES[self.source], arguments), 0
        elif self.source in _plugins():
            with border(f"The plugin {self.source}", "cannot be loaded"):
                environment, limit = self._built(_plugins()[self.source].load(), arguments), 0
        else:
            environment, limit = self._registered(arguments)
        environment, wrapped = _peeled(environment)
        return environment, self.max_steps or limit or wrapped or _LIMIT

    def _built(self, cls: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        environment = self._called(lambda: cls(**arguments))
        if not isinstance(environment, gymnasium().Env):
            raise CanonError(
                f"{self.source} makes an object of type {type(environment).__name__}, which is not a gymnasium.Env."
            )
        return environment

    def _registered(self, arguments: dict[str, Any]) -> tuple[Any, int]:
        gym = gymnasium()
        if versions := _versions(self.source):
            raise CanonError(f"{self.source} has no version; gymnasium's ids do: {', '.join(versions)}.")
        module, _, name = self.source.rpartition(":")
        if module:
            with border(f"The module {module}", f"of {self.source} cannot be imported"):
                importlib.import_module(module)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            previous, gym.logger.min_level = gym.logger.min_level, logging.ERROR
            try:
                known = gym.spec(name)
                environment = self._called(
                    lambda: gym.make(name, max_episode_steps=-1, disable_env_checker=True, **arguments)
                )
            except gym.error.DeprecatedEnv as retired:
                raise CanonError(f"{self.source} is retired: {reason(retired)}.") from None
            except (gym.error.NameNotFound, gym.error.VersionNotFound, gym.error.NamespaceNotFound):
                raise unknown("environment", self.source, (*gym.registry, *BUILTIN)) from None
            finally:
                gym.logger.min_level = previous
        return environment, int(known.max_episode_steps or 0)

    def _called(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except CanonError:
            raise
        except ModuleNotFoundError as missing:
            raise CanonError(f"{self.source} needs a module that is not installed: {missing.name}.") from None
        except (Exception, SystemExit) as error:
            kinds = gymnasium().error
            if isinstance(error, kinds.DeprecatedEnv | kinds.UnregisteredEnv):
                raise
            if isinstance(error, TypeError) and "'render_mode'" in str(error):
                raise CanonError(
                    f"{self.source} cannot be drawn: it takes no argument render_mode. Give it one, and a render() "
                    "that returns pixels [height, width, 3] for rgb_array."
                ) from error
            given = ", ".join(self.arguments) or "none"
            raise CanonError(f"{self.source} cannot be made: {reason(error)} (data.arguments: {given}).") from error


def _peeled(env: Any) -> tuple[Any, int]:
    """Without outer wrappers whose work canon does itself, and the least limit of steps that a wrapper sets, or 0."""
    wrappers = gymnasium().wrappers
    kinds = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker, wrappers.TimeLimit)
    limits, layer = [], env
    while layer is not layer.unwrapped:
        if isinstance(layer, wrappers.TimeLimit):
            limits.append(int(layer._max_episode_steps))
        layer = layer.env
    while type(env) in kinds:
        env = env.env
    return env, min(limits, default=0)


def _listed(value: Any) -> Any:
    """Lists as a TOML file has them."""
    return [_listed(item) for item in value] if isinstance(value, tuple | list) else value


def _maker_in(path: Path, source: str) -> Any:
    if not path.is_file():
        raise CanonError(f"There is no file {path} ({source}).")
    name = source.rpartition(":")[2]
    with border(path, "cannot be imported"):
        module = module_of(path, "canon_environment")
    if name not in vars(module):
        made_here = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type | FunctionType) and value.__module__ == module.__name__
        ]
        raise unknown(f"class or function in {path}", name, made_here)
    return vars(module)[name]
