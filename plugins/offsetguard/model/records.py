"""`@record`: a frozen dataclass that costs a fifth of one to define, for modules that are loaded at every start.

A dataclass compiles up to six methods for each class, half a millisecond; a command that is done in half a second has
a hundred of them, and makes many instances of a few. Here only `__init__` is compiled, of a class that makes more than
a few records; comparing, hashing and showing are written once, below. That nothing is assigned to a record is held by
the type checker, not at run time: building one is three times quicker, too.
`dataclasses.fields`, `replace` and `asdict` work as with any dataclass, and pydantic takes a record for one.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable

ClassT = TypeVar("ClassT", bound=type)
FEW = 16  # half of the classes make no more, and compiling costs as much as making these
_made: dict[type, int] = {}


@overload
def record(cls: ClassT) -> ClassT: ...
@overload
def record(*, kw_only: bool) -> Callable[[ClassT], ClassT]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, *, kw_only: bool = False) -> Any:
    """Make a class with annotated fields a record: equal by its fields, hashable, without `__dict__`.

    One that says `__slots__ = ()` is a group of fields for others: a record may have any number of such bases.
    """
    if cls is None:
        return lambda made_of: _record(made_of, kw_only=kw_only)
    return _record(cls, kw_only=kw_only)


def _record(cls: type, *, kw_only: bool) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # `dataclass` would look for a signature, with a tokenizer: 3 ms
    slots = "__slots__" not in cls.__dict__
    made: Any = dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    methods = (("__init__", _first_init), ("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _shown))
    for name, method in methods:
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Stand for `__init__` until a class has made FEW records, or somebody gives it the wrong arguments."""
    cls: Any = type(self)
    _made[cls] = _made.get(cls, 0) + 1
    values = _values_of(cls, args, kwargs) if _made[cls] <= FEW else None
    if values is None:
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *args, **kwargs)
        return
    for name, value in values.items():
        setattr(self, name, value)
    if hasattr(cls, "__post_init__"):
        self.__post_init__()


def _values_of(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the values of all fields; None where the arguments are not what `__init__` takes."""
    all_fields = fields(cls)
    values = dict(zip([one.name for one in all_fields if not one.kw_only], args, strict=False))
    if len(values) < len(args) or not values.keys().isdisjoint(kwargs):
        return None
    values |= kwargs
    for one in all_fields:
        if one.name in values:
            continue
        if one.default is not MISSING:
            values[one.name] = one.default
        elif one.default_factory is not MISSING:
            values[one.name] = one.default_factory()
    return values if values.keys() == {one.name for one in all_fields} else None


def _compiled_init(cls: type) -> Any:
    """Compile what `dataclass` would: parameters with their defaults, one assignment for each field."""
    known: dict[str, Any] = {"_not_given": MISSING}
    by_place, by_name = ["self"], list[str]()
    body: list[str] = []
    for one in fields(cls):
        parameter, value = one.name, one.name
        if one.default is not MISSING:
            known[f"_default_{one.name}"] = one.default
            parameter = f"{one.name}=_default_{one.name}"
        elif one.default_factory is not MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            parameter = f"{one.name}=_not_given"
            value = f"_make_{one.name}() if {one.name} is _not_given else {one.name}"
        (by_name if one.kw_only else by_place).append(parameter)
        body.append(f"    self.{one.name} = {value}\n")
    parameters = ", ".join([*by_place, *(("*", *by_name) if by_name else ())])
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()\n")
    exec(f"def __init__({parameters}):\n{''.join(body) or '    pass'}", known)  # noqa: S102 names of our own fields
    return known["__init__"]


def _is_equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self.__dataclass_fields__))


def _shown(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"
