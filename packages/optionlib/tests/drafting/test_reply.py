"""The module in a reply."""

import pytest

from potluck_optionlib.drafting.endpoints import Reply
from potluck_optionlib.drafting.reply import MAX_CHARACTERS, extract

MODULE = "def contracts(world):\n    return []\n"


def said(text: str) -> str:
    found = extract(Reply(text, "stop", False, False, "m", "", 1, 1))
    return found if isinstance(found, str) else f"!{found.kind}"


@pytest.mark.parametrize(
    "text",
    [
        f"Here it is.\n\n```python\n{MODULE}```\nDone.",
        f"```\n{MODULE}```",
        f"````py\n{MODULE}````",
        f"~~~python\n{MODULE}~~~",
        f"```python\n{MODULE}```\nRun it like this:\n```sh\nls\n```",
        f"```python\nx = 1\n```\nand the module:\n```python\n{MODULE}```",
        f"```Python title\n{MODULE}```",
    ],
)
def test_one_module_is_found(text: str) -> None:
    assert said(text) == MODULE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_module"),
        (MODULE, "no_module"),
        (f"```python\n{MODULE}", "no_module"),
        (f"```rust\n{MODULE}```", "no_module"),
        (f"```python\n{MODULE}```\n```python\n{MODULE}```", "several_modules"),
        ("```python\na = 1\n```\n```python\nb = 1\n```", "several_modules"),
    ],
)
def test_anything_else_is_a_finding(text: str, kind: str) -> None:
    assert said(text) == f"!{kind}"


def test_an_open_fence_is_named() -> None:
    found = extract(Reply("```python\nx = 1", "stop", False, False, "m", "", 1, 1))
    assert not isinstance(found, str)
    assert "never closed" in found.evidence


def test_a_module_may_hold_backticks() -> None:
    module = f'"""Says ```."""\n{MODULE}'
    assert said(f"```python\n{module}```") == module


def test_a_block_ends_with_the_fence_that_opened_it() -> None:
    inner = f"{MODULE}# ```\n```\n"
    assert said(f"````python\n{inner}````") == inner
    assert said(f"```python\n{MODULE}``` \t\n") == MODULE


@pytest.mark.parametrize("line", ["```a", "`" * 300 + "x", "~~~ python"])
def test_fences_that_never_close_cost_no_more_than_other_lines(line: str) -> None:
    """A scan that begins anew at each fence would not end within hours."""
    assert said(f"{line}\n" * (MAX_CHARACTERS // (len(line) + 1))) == "!no_module"


def test_replies_that_are_too_long_are_not_read() -> None:
    module = f"```python\n{MODULE}```\n"
    assert said(module.rjust(MAX_CHARACTERS, "\n")) == MODULE
    assert said(module.rjust(MAX_CHARACTERS + 1, "\n")) == "!too_long"
