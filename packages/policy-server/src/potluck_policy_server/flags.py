"""Flags into `ServeConfig`: tyro reads them, pydantic checks them all at once, and a refusal names flag and cure."""

from __future__ import annotations

from typing import Any, get_type_hints

import tyro
from pydantic import ValidationError
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from potluck_policy_server.config import ServeConfig
from potluck_policy_server.errors import InvalidRequest

CURES = {
    "greater_than_equal": "give {ge:g} or more",
    "less_than_equal": "give {le:g} or less",
    "literal_error": "give {expected}",
}
"""By pydantic's name of the problem."""


def registry() -> ConstructorRegistry:
    """Builds ServeConfig without any check: tyro would show pydantic's own text."""
    made = ConstructorRegistry()
    made.struct_rule(_unchecked)
    return made


def checked(config: ServeConfig) -> ServeConfig:
    """The settings, or the first flag that is wrong."""
    try:
        return ServeConfig.model_validate(config.model_dump(warnings=False))
    except ValidationError as error:
        problem: Any = error.errors()[0]
        flag = "--" + ".".join(str(part) for part in problem["loc"]).replace("_", "-")
        cure = CURES.get(problem["type"], "see potluck-policy serve --help").format(**problem.get("ctx", {}))
        raise InvalidRequest(flag, f"{problem['input']!r} will not do", cure) from None


def _unchecked(info: StructTypeInfo) -> StructConstructorSpec | None:
    if info.type is not ServeConfig:
        return None
    hints = get_type_hints(ServeConfig, include_extras=True)

    def build(**values: Any) -> ServeConfig:
        return ServeConfig.model_construct(**values)

    build.__doc__ = ServeConfig.__doc__
    fields = tuple(
        StructFieldSpec(name, hints[name], tyro.MISSING if field.is_required() else field.default, field.description)
        for name, field in ServeConfig.model_fields.items()
    )
    return StructConstructorSpec(build, fields)
