"""Reading settings: TOML as `@file.toml`, flags on top, and errors that name the nearest key."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from potluck_trainer.errors import ConfigError, RecordError

Config = TypeVar("Config", bound=BaseModel)


def load_toml(path: Path, model: type[Config]) -> Config:
    """A config from a TOML file."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no config file {path}; check the path after @") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; check the path after @") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}; correct the file") from error
    return validate(data, model, source=str(path))


def load_json(path: Path, model: type[Config]) -> Config:
    """A config from a run folder."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read {path}: {error}; restore it from a copy") from error
    return validate(data, model, source=str(path))


def validate(data: dict[str, Any], model: type[Config], source: str, flags: bool = False) -> Config:
    """Checks data against a model; an unknown key names the nearest known one, a wrong value its cure."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(_explain(problem, model, flags) for problem in error.errors())
        raise ConfigError(problems if flags else f"{source}: {problems}") from None


def split_config(args: Sequence[str], model: type[Config]) -> tuple[Config, list[str]]:
    """Takes a leading `@file.toml` off the arguments and loads it; without one, the defaults."""
    rest = list(args)
    if rest and rest[0].startswith("@"):
        return load_toml(Path(rest.pop(0)[1:]), model), rest
    return model(), rest


CURES = {
    "greater_than_equal": "give {ge:g} or more",
    "greater_than": "give more than {gt:g}",
    "less_than_equal": "give {le:g} or less",
    "less_than": "give less than {lt:g}",
    "literal_error": "give {expected}",
    "finite_number": "give a finite number",
}
"""By pydantic's name of the problem."""


def _explain(problem: Any, model: type[BaseModel], flags: bool) -> str:
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    name = "--" + key.replace("_", "-") if flags else key
    if problem["type"] == "value_error":  # one of our own checks: it says what to do
        return f"{name}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
    if problem["type"] != "extra_forbidden":
        if cure := CURES.get(problem["type"]):
            return f"{name} is {problem['input']}; {cure.format(**problem.get('ctx', {}))}"
        return f"{name} is {problem['input']!r}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
    known = _keys(model)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5) or difflib.get_close_matches(
        path[-1], [name.rsplit(".", 1)[-1] for name in known], n=1, cutoff=0.6
    )
    hint = f'did you mean "{_full(near[0], known)}"?' if near else f"known keys: {', '.join(known)}"
    return f'unknown key "{key}"; {hint}'


def _full(name: str, known: Sequence[str]) -> str:
    return next((key for key in known if key == name or key.endswith("." + name)), name)


def _keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys.extend(_keys(field.annotation, f"{prefix}{name}."))
    return keys
