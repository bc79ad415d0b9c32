"""Command lines into settings: tyro reads the flags, pydantic checks them, and an error names flag and cure.

tyro would build each nested model by itself and show pydantic's own text. Here flags fill models without any check
(`unchecked`), and the whole is then checked at once, as a file is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, get_type_hints

import tyro
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from potluck_trainer.config_file import validate

Settings = TypeVar("Settings", bound=BaseModel)


def parse_flags(model: type[Settings], args: Sequence[str], prog: str, default: Settings | None = None) -> Settings:
    """The settings that flags ask for, on top of `default`. Raises ConfigError; --help and unknown flags exit."""
    registry = ConstructorRegistry()
    registry.struct_rule(unchecked)
    parsed: Any = tyro.cli(model, prog=prog, default=default, args=list(args), registry=registry)
    return validate(parsed.model_dump(warnings=False), model, source=prog, flags=True)


def unchecked(info: StructTypeInfo) -> StructConstructorSpec | None:
    """How tyro is to build a model: with all its fields and no check."""
    model = info.type
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    hints = get_type_hints(model, include_extras=True)

    def build(**values: Any) -> BaseModel:
        return model.model_construct(**values)

    build.__doc__, build.__name__ = model.__doc__, model.__name__
    fields = tuple(
        StructFieldSpec(name, hints[name], _default(info.default, name, field), field.description)
        for name, field in model.model_fields.items()
    )
    return StructConstructorSpec(build, fields)


def _default(parent: Any, name: str, field: FieldInfo) -> Any:
    if isinstance(parent, BaseModel):
        return getattr(parent, name)
    return tyro.MISSING if field.is_required() else field.get_default(call_default_factory=True)
