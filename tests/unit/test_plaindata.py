"""Plain data is made, compared, hashed, shown and copied as a frozen dataclass is."""

from __future__ import annotations

import copy
import math
import pickle
import weakref
from dataclasses import asdict, dataclass, field, fields, replace

import pytest

from nczfs.plaindata import frozen


@frozen
class Fields:
    number: float
    words: tuple[str, ...] = ()
    secret: str = field(default="", repr=False)
    note: str = field(default="", compare=False)
    ranges: list[int] = field(default_factory=list, hash=False)


@dataclass(frozen=True, slots=True)
class Standard:
    number: float
    words: tuple[str, ...] = ()
    secret: str = field(default="", repr=False)
    note: str = field(default="", compare=False)
    ranges: list[int] = field(default_factory=list, hash=False)


@frozen
class Below(Fields):
    further: int = 0


@frozen
class One:
    value: float


@frozen
class Nothing:
    pass


@frozen(eq=False, weakref_slot=True)
class Identity:
    number: int


@frozen
class Own:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


@frozen
class Around:
    held: list[object]


NAN = math.nan
VALUES: list[tuple[object, ...]] = [
    (1.0,),
    (1,),
    (NAN,),
    (1.0, ("a",)),
    (1.0, (), "hidden"),
    (1.0, (), "", "said"),
    (1.0, (), "", "", [1, 2]),
]


@pytest.mark.parametrize("left", VALUES)
@pytest.mark.parametrize("right", VALUES)
def test_equality_and_hash_are_those_of_a_dataclass(
    left: tuple[float, ...], right: tuple[float, ...]
) -> None:
    equal = Standard(*left) == Standard(*right)  # type: ignore[arg-type]
    assert (Fields(*left) == Fields(*right)) is equal  # type: ignore[arg-type]
    assert hash(Fields(*left)) == hash(Standard(*left))  # type: ignore[arg-type]


@pytest.mark.parametrize("values", VALUES)
def test_it_is_shown_as_a_dataclass_is(values: tuple[float, ...]) -> None:
    shown = repr(Standard(*values)).replace("Standard", "Fields")  # type: ignore[arg-type]
    assert repr(Fields(*values)) == shown  # type: ignore[arg-type]


def test_classes_with_the_same_values_differ() -> None:
    assert Fields(1.0) != Below(1.0)
    assert Below(1.0, further=2) == Below(1.0, further=2) != Below(1.0)
    assert repr(Below(1.0)) == "Below(number=1.0, words=(), note='', ranges=[], further=0)"


def test_one_value_is_compared_as_one_of_many_is() -> None:
    """The same NaN is equal to itself in a tuple, as in a dataclass."""
    assert One(NAN) == One(NAN)
    assert One(1.0) != One(2.0)
    assert hash(One(1.0)) == hash(One(1.0))


def test_without_values_all_are_equal() -> None:
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_without_equality_an_instance_equals_itself_alone() -> None:
    one = Identity(1)
    assert one == one
    assert one != Identity(1)
    assert weakref.ref(one)() is one


def test_methods_of_the_class_itself_stay() -> None:
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 7
    assert repr(Own(1)) == "own"


def test_what_holds_itself_can_be_shown() -> None:
    held: list[object] = []
    around = Around(held)
    held.append(around)
    assert repr(around) == "Around(held=[...])"


def test_the_functions_of_dataclasses_take_it() -> None:
    whole = Fields(1.0, ("a",), ranges=[3])
    assert [each.name for each in fields(whole)] == ["number", "words", "secret", "note", "ranges"]
    assert replace(whole, number=2.0) == Fields(2.0, ("a",), ranges=[3])
    assert asdict(One(2.0)) == {"value": 2.0}
    assert pickle.loads(pickle.dumps(whole)) == copy.deepcopy(whole) == whole
    assert not hasattr(whole, "__dict__")
    match whole:
        case Fields(number, words):
            assert (number, words) == (1.0, ("a",))


def test_type_checkers_refuse_to_change_it() -> None:
    """The check of types would call the comment unused; at run time nothing is in the way."""
    one = One(1.0)
    one.value = 2.0  # type: ignore[misc]
    assert one == One(2.0)
