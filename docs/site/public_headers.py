"""The headers of the API reference, as Doxygen reads them: docs/site/public_headers.txt lists them.

Comments here are plain (`//`). Doxygen reads copies in which a comment before a declaration, or after a member on
its line, is one of Doxygen's.
"""

import pathlib
import re
import subprocess

LIST = pathlib.Path(__file__).with_suffix(".txt")
SETTINGS = """
INPUT = "{sources}"
STRIP_FROM_PATH = "{sources}"
OUTPUT_DIRECTORY = "{out}"
RECURSIVE = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
MAX_INITIALIZER_LINES = 0
AUTOLINK_SUPPORT = NO
MARKDOWN_SUPPORT = NO
SORT_MEMBER_DOCS = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = YES
"""
_WHOLE = re.compile(r"^(\s*)//\s?(.*)$")
_BEHIND = re.compile(r"^(\s*\S.*[;,{}]|\s*k\w+)\s+//\s(.*)$")
_NAMESPACE = re.compile(r"^(namespace packtrain \{|\}  // namespace packtrain)$", re.MULTILINE)
_SPECIAL = re.compile(r"[@\\<>#&%\"$]")  # what Doxygen takes for commands, tags and links


def names() -> list[str]:
    lines = (line.strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _escaped(text: str) -> str:
    """Marks `code` as Doxygen does."""
    parts = [_SPECIAL.sub(r"\\\g<0>", part) for part in text.split("`")]
    if len(parts) % 2 == 0:  # code that continues in the next line
        return "`".join(parts)
    return "".join(f"<tt>{part}</tt>" if number % 2 else part for number, part in enumerate(parts))


def _public_lines(text: str) -> list[str]:
    """Without the private part of classes, which ends with the class."""
    lines, end = [], None
    for line in text.splitlines():
        if end is None and (private := re.match(r"( *) private:", line)):
            end = f"{private[1]}}};"
        elif line == end:
            end = None
        if end is None:
            lines.append(line)
    return lines


def with_doxygen_comments(text: str, name: str) -> str:
    """`name`: of the header, from the root. Its first comment is that of the whole file. Without the namespace
    that all share, which would stand on each page."""
    text = _NAMESPACE.sub("", text)
    lines, behind = [], 0  # `behind`: the column of the comment at the end of the line before
    for number, line in enumerate(_public_lines(text)):
        whole, after = _WHOLE.match(line), _BEHIND.match(line)
        if whole and behind and len(whole[1]) >= behind:
            lines.append(f"{whole[1]}///< {_escaped(whole[2])}")
            continue
        behind = 0
        if whole:
            lines += [f"/// @file {name}"] if number == 0 else []
            lines.append(f"{whole[1]}/// {_escaped(whole[2])}")
        elif after:
            behind = line.index("//")
            lines.append(f"{after[1]}  ///< {_escaped(after[2])}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def read_with_doxygen(root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Returns the folder of Doxygen's XML. Raises CalledProcessError where Doxygen warns."""
    sources, out = folder / "sources", folder / "doxygen"
    for name in names():
        copy = sources / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(with_doxygen_comments((root / name).read_text(), name))
    out.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.format(sources=sources, out=out)
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
    return out / "xml"
