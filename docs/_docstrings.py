"""Signatures and docstrings of Python names as Markdown."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

WIDTH = 100
_ITEMS = ("Parameters", "Raises", "Returns", "Yields", "Attributes")


def describe(name: str, value: Any) -> str:
    """The section of one public name: its signature, its docstring, and the members of a class."""
    parts = [f"### `{name}`", ""]
    if inspect.isclass(value):
        parts += _describe_class(name, value)
    elif callable(value):
        parts += [_code(signature_of(name, value)), "", markdown(inspect.getdoc(value) or "")]
    else:
        parts += [f"{_article(value)} with the entries {', '.join(f'`{key}`' for key in value)}."]
    return "\n".join(parts).rstrip() + "\n"


def first_sentence(value: Any) -> str:
    """The first line of the docstring, without its full stop."""
    if not (inspect.isclass(value) or callable(value)):
        return f"{_article(value)} of {len(value)} entries"
    doc = inspect.getdoc(value) or ""
    return inline(" ".join(doc.split("\n\n")[0].split())).rstrip(".")


def signature_of(name: str, function: Any) -> str:
    """The signature as the source has it, on several lines where it is long.

    Examples
    --------
    >>> signature_of("first_sentence", first_sentence)
    'first_sentence(value: Any) -> str'
    """
    node = _parsed(function)
    arguments = node.args
    listed = [ast.unparse(argument) for argument in (*arguments.posonlyargs, *arguments.args)]
    skipped = len(listed) - len(arguments.defaults)
    for place, default in enumerate(arguments.defaults):
        listed[skipped + place] = _with_default(listed[skipped + place], default)
    if listed and listed[0] in {"self", "cls"}:
        del listed[0]
    if arguments.vararg:
        listed.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        listed.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        listed.append(
            ast.unparse(argument)
            if default is None
            else _with_default(ast.unparse(argument), default)
        )
    if arguments.kwarg:
        listed.append(f"**{ast.unparse(arguments.kwarg)}")
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns).strip(chr(39))}"
    line = f"{name}({', '.join(listed)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join((f"{name}(", *(f"    {item}," for item in listed), f"){returns}"))


def _with_default(argument: str, default: ast.expr) -> str:
    return (
        f"{argument} = {ast.unparse(default)}"
        if ":" in argument
        else f"{argument}={ast.unparse(default)}"
    )


def _parsed(function: Any) -> ast.FunctionDef:
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _describe_class(name: str, kind: type) -> Iterator[str]:
    fields = dict(_fields(kind))
    if issubclass(kind, Exception):
        yield f"An exception; a kind of `{kind.__mro__[1].__name__}`.\n"
    elif fields:
        yield _code("\n".join((f"class {name}", *(f"    {field}" for field in fields.values()))))
    else:
        yield _code(
            signature_of(name, kind.__init__) if "__init__" in vars(kind) else f"class {name}"
        )
    yield ""
    yield markdown(inspect.getdoc(kind) or "")
    members = list(_members(kind))
    if members:
        yield "\n*Members*\n"
        yield from members


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """The fields of a data class and of those it builds on, as their source has them."""
    if not hasattr(kind, "__dataclass_fields__"):
        return
    for base in reversed(kind.__mro__[:-1]):
        if base.__module__.startswith("microcell"):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(body, ast.ClassDef)
            for item in body.body:
                if (
                    isinstance(item, ast.AnnAssign)
                    and isinstance(item.target, ast.Name)
                    and _is_field(item)
                ):
                    yield item.target.id, _field(item)


def _is_field(item: ast.AnnAssign) -> bool:
    return not ast.unparse(item.annotation).startswith("ClassVar") and not ast.unparse(
        item.target
    ).startswith("_")


def _field(item: ast.AnnAssign) -> str:
    """A field of a data class; what only its making needs is left out."""
    text = ast.unparse(item)
    return re.sub(r" = field\((?!default).*\)$", "", text).replace(
        "field(default_factory=dict)", "{}"
    )


def _members(kind: type) -> Iterator[str]:
    """A line for each public method and property of the class that has a docstring."""
    for base in (base for base in kind.__mro__ if base.__module__.startswith("microcell")):
        for name, member in vars(base).items():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            seen_below = getattr(kind, name, None) is not getattr(base, name, None)
            if (
                name.startswith("_")
                or seen_below
                or not (inspect.isfunction(function) and inspect.getdoc(function))
            ):
                continue
            shown = (
                name
                if isinstance(member, property)
                else " ".join(signature_of(name, function).split())
            )
            shown = shown.replace("( ", "(").replace(", )", ")")
            yield f"- `{shown}`: {first_sentence(function)}."


def markdown(doc: str) -> str:
    """A numpy-style docstring as Markdown: lists for its parameters, code for its examples."""
    sections = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", doc, flags=re.MULTILINE)
    parts = [_prose(sections[0])]
    for title, body in zip(sections[1::2], sections[2::2], strict=True):
        if title == "Examples":
            # Not "pycon": the formatter would change what docstrings have.
            parts.append(f"```python-console\n{body.strip()}\n```")
        elif title in _ITEMS:
            parts.append(f"*{title}*\n\n" + "\n".join(_items(body)))
        else:
            parts.append(f"*{title}*\n\n{_prose(body)}")
    return "\n\n".join(part for part in parts if part)


def _items(body: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        names, _, meaning = entry.partition("\n")
        text = " ".join(textwrap.dedent(meaning).split())
        yield f"- `{names.strip()}`" + (f": {inline(text)}" if text else "")


def _prose(text: str) -> str:
    """Paragraphs, and blocks of code where a paragraph is indented."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            out.append(_code(textwrap.dedent(paragraph)))
        elif paragraph.strip() != "::":
            out.append(
                inline(paragraph.strip()).removesuffix(":")
                + ("" if not paragraph.endswith("::") else ":")
            )
    return "\n\n".join(out)


def inline(text: str) -> str:
    """Marks of docstrings as those of Markdown; what would be taken for marks escaped.

    Examples
    --------
    >>> inline("See :func:`microcell.audit` and ``a*b``, 2 * 3 < 7.")
    'See `audit` and `a*b`, 2 \\\\* 3 &lt; 7.'
    """
    text = re.sub(
        r":[a-z]+:`~?([^`]+)`", lambda match: f"``{match[1].removeprefix('microcell.')}``", text
    )
    pieces = re.split(r"``(.+?)``", text, flags=re.DOTALL)
    for place in range(0, len(pieces), 2):
        pieces[place] = pieces[place].replace("*", "\\*").replace("<", "&lt;")
    return "".join(f"`{piece}`" if place % 2 else piece for place, piece in enumerate(pieces))


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _article(value: Any) -> str:
    return "A mapping" if hasattr(value, "keys") else "A tuple"
