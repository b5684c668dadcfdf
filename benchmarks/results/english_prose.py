"""Paragraphs of English prose from web pages, manual pages, Info and plain text."""

import html
import re

HTML = (".html", ".htm", ".xhtml", ".page")
PLAIN = (".txt", ".text", ".md", ".rst", ".info", ".dict")
MANUAL = re.compile(r"/man/man[1-9]/")
FEWEST_WORDS, FEWEST_CHARACTERS = 8, 50
LEAST_COMMON, LEAST_LETTERS = 0.18, 0.85  # shares of the words and of the characters of a paragraph

OTHERS = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalpha()) and byte != 32)
COMMON = frozenset(
    "a about all also an and any are as at be been but by can do does each either for from had has have he her his "
    "how i if in into is it its may more most must my no not of on one only or other our she should so some such than "
    "that the their them then there these they this those to two up use used was we were what when where which who "
    "will with would you your".split())

BLOCKS = "p|li|dd|td|dt|div|ul|ol|dl|tr|th|table|h[1-6]|pre|section|blockquote|body|title|item|note|steps"
# What is directly in an element of text, up to where another block begins or ends.
TEXT = re.compile(rf"<(?:p|li|dd|td)\b[^>]*>((?:[^<]+|<(?!/?(?:{BLOCKS})\b))*)", re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")
GAP = re.compile(r"\n\s*\n")
# Roff: a macro that ends a paragraph, one whose arguments are text, any other; escapes.
ROFF_BREAK = re.compile(r"^[.'](?:P|PP|LP|IP|TP|SH|SS|RS|RE|sp|Pp|Sh|Ss|It|Bl|El|nf|fi|HP|br)\b.*$", re.MULTILINE)
ROFF_FONT = re.compile(r"^[.'](?:B|I|BR|IR|RB|BI|IB|RI|SM|SB|Nm|Ar|Fl|Pa|Cm|Em|Xr|Dq|Sq|Ql) +(.*)$", re.MULTILINE)
ROFF_MACRO = re.compile(r"^[.'].*$", re.MULTILINE)
ROFF_ESCAPES = (
    (re.compile(r"\\f(?:\[\w*\]|\(\w\w|\w)|\\[&|^%/,:]|\\s[-+]?\d|\\m\[\w*\]"), ""),
    (re.compile(r"\\\((?:em|en|hy)|\\-"), "-"),
    (re.compile(r"\\\((?:aq|cq|oq)|\\\[(?:aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\((?:dq|lq|rq)|\\\[(?:dq|lq|rq)\]|\\\*\(?[LR]?\"|\\\*\([lr]q"), '"'),
    (re.compile(r"\\~|\\ |\\0"), " "),
    (re.compile(r"\\e|\\\(rs"), r"\\"),
)


def html_blocks(text: str) -> list[str]:
    blocks = (block for block in TEXT.findall(text) if len(block) >= FEWEST_CHARACTERS)
    return [html.unescape(TAG.sub("", block)) for block in blocks]


def plain_blocks(text: str) -> list[str]:
    return GAP.split(text)


def manual_blocks(text: str) -> list[str]:
    text = ROFF_FONT.sub(r"\1", ROFF_BREAK.sub("\n", text))
    text = ROFF_MACRO.sub("", text)
    for escape, meaning in ROFF_ESCAPES:
        text = escape.sub(meaning, text)
    return plain_blocks(text)


def is_prose(block: str) -> bool:
    if len(block) < FEWEST_CHARACTERS or block.count(" ") + 1 < FEWEST_WORDS or "\ufffd" in block:
        return False
    letters = len(block.encode("ascii", errors="ignore").translate(None, OTHERS))
    if letters < LEAST_LETTERS * len(block):
        return False
    words = block.lower().split(" ")
    return sum(map(COMMON.__contains__, words)) >= LEAST_COMMON * len(words)


def blocks_function(name: str):
    """What divides the file of this name into blocks, without .gz; None: a file without prose."""
    lower = name.lower()
    if lower.endswith(HTML):
        return html_blocks
    if MANUAL.search(name):
        return manual_blocks
    if lower.endswith(PLAIN) or re.search(r"/(?:README|NEWS|FAQ|HOWTO)[^/]*$|/games/fortunes/[\w-]+$", name):
        return plain_blocks
    return None


def paragraphs(name: str, content: bytes) -> list[str]:
    divide = blocks_function(name)
    if not divide:
        return []
    blocks = (" ".join(block.split()) for block in divide(content.decode("utf-8", errors="replace")))
    return [block for block in blocks if is_prose(block)]
