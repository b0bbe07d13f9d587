"""What is put right in Chainlit."""

import pickle
import types

import chainlit
import pytest

from assistant import guards


def test_pickling_gets_past_chainlit() -> None:
    """torch.compile pickles functions by asking every loaded module: Chainlit's lazy attributes must not break that."""
    stray = types.FunctionType((lambda: None).__code__, {}, "stray")
    stray.__module__ = None  # type: ignore[assignment]  # a function that nobody claims: every module is asked for it
    guards.apply()
    assert pickle.whichmodule(stray, "no_such_name") == "__main__"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        chainlit.no_such_name  # noqa: B018  (the access is the test)
    assert chainlit.server is not None


def test_without_the_guard_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is still there in this Chainlit; when this fails, the guard can go."""
    lazy = chainlit.utils.make_module_getattr({})
    monkeypatch.setitem(vars(chainlit), "__getattr__", lazy)
    with pytest.raises(KeyError):
        chainlit.no_such_name  # noqa: B018  (the access is the test)


def test_guards_can_be_applied_again() -> None:
    """Under -w they are, at every save."""
    guards.apply()
    once = vars(chainlit)["__getattr__"]
    guards.apply()
    assert vars(chainlit)["__getattr__"] is once


@pytest.mark.parametrize("tag", ["zh", "zh-CN", "zh-HK", "zh-Hans-CN", "zh-TW", "ZH-sg"])
def test_chinese_is_chinese(tag: str) -> None:
    """C2: every Chinese tag."""
    assert guards.supported(tag) == "zh-CN"


@pytest.mark.parametrize("tag", ["en", "en-GB", "de", "fil", "zhx"])
def test_all_others_get_english(tag: str) -> None:
    """C2: and only those."""
    assert guards.supported(tag) == "en-US"
