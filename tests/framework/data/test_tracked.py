"""Tracked text is the text that a plain string would be, and knows the origin of its characters."""

import json
import random

import jinja2
import pytest
from prepare_program import TOOLS  # noqa: F401  (puts the tools on the path)

from packtrain_tools.chat.conversations import read_messages
from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.parts import lost_parts, track
from packtrain_tools.chat.template import ChatTemplate
from packtrain_tools.chat.tracked import Tracked, concat, join, number_of_part, of_part, plain, spans_of
from packtrain_tools.chat.tracked_json import dumps

ALPHABET = ["a", "b", "Ab", " ", "\n", "\t", "é", "漢", "<", ">", "</think>", '"', "\\", "ß", "\u2028"]
OPERATIONS = [
    lambda s: s.strip(), lambda s: s.lstrip("ab "), lambda s: s.rstrip("\n"), lambda s: s[1:],
    lambda s: s[:-2], lambda s: s[3:1], lambda s: s[-1:], lambda s: s[::2], lambda s: s[::-1],
    lambda s: s.split("b")[-1], lambda s: s.split()[-1] if s.split() else s, lambda s: s.split("</think>", 1)[0],
    lambda s: s.rsplit("a", 1)[0], lambda s: s.rsplit(None, 2)[0] if s.rsplit(None, 2) else s,
    lambda s: s.splitlines()[-1] if s.splitlines() else s, lambda s: s.splitlines(True)[0] if s else s,
    lambda s: s.partition("b")[2], lambda s: s.rpartition("a")[0], lambda s: s.replace("ab", "xy"),
    lambda s: s.replace("a", ""), lambda s: s.replace("b", "bb", 1), lambda s: s.replace("", "-"),
    lambda s: s.upper(), lambda s: s.lower(), lambda s: s.title(), lambda s: s.capitalize(),
    lambda s: s.removeprefix("a"), lambda s: s.removesuffix("b"), lambda s: s.removesuffix(""),
    lambda s: s.swapcase(), lambda s: s.center(9), lambda s: s.center(14, "-"), lambda s: s.ljust(9, "."),
    lambda s: s.rjust(9), lambda s: s.replace("<", "&lt;"), lambda s: s.replace('"', '\\"'), lambda s: s * 2,
    lambda s: "<" + s, lambda s: s + ">", lambda s: s + s, lambda s: str(s), lambda s: s.join(["p", "q"]),
    lambda s: s[0] if s else s, lambda s: "".join(s), lambda s: f"{s}!"]


def texts(seed: int, number: int):
    generator = random.Random(seed)
    for _ in range(number):
        yield "".join(generator.choice(ALPHABET) for _ in range(generator.randrange(12)))


def check_spans(text: str, sources: list[str]):
    for begin, end, part, source_begin, source_end in spans_of(text):
        assert 0 <= begin < end <= len(text)
        if end - begin == source_end - source_begin:
            assert plain(text)[begin:end].lower() == sources[part][source_begin:source_end].lower()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_gives_the_plain_text_and_true_origins(operation):
    for source in texts(1, 300):
        got = operation(of_part(source, 0))
        assert plain(got) == operation(source)
        check_spans(got, [source])


def test_chains_of_operations_give_the_plain_text_and_true_origins():
    generator = random.Random(2)
    same_length = OPERATIONS[:-2]  # the last ones lose the origin
    for source, other in zip(texts(3, 2000), texts(4, 2000)):
        chain = generator.choices(same_length, k=4)
        got, wanted = of_part(source, 0) + of_part(other, 1), source + other
        for operation in chain:
            got, wanted = operation(got), operation(wanted)
        assert plain(got) == wanted
        check_spans(got, [source, other])


def test_what_a_string_refuses_is_refused_in_the_same_words():
    for operation in (lambda s: s + {}, lambda s: s + 1, lambda s: [] + s, lambda s: s.join([1]),
                      lambda s: s[99], lambda s: s.split("")):
        with pytest.raises(Exception) as wanted:
            operation("abc")
        with pytest.raises(type(wanted.value)) as got:
            operation(of_part("abc", 0))
        assert str(got.value).replace("Tracked", "str") == str(wanted.value)


def test_joining_keeps_origins():
    pieces = [of_part("x", 0), "-", of_part("yz", 1)]
    assert spans_of(concat(pieces)) == [(0, 1, 0, 0, 1), (2, 4, 1, 0, 2)]
    assert spans_of(join(", ", pieces)) == [(0, 1, 0, 0, 1), (6, 8, 1, 0, 2)]
    assert type(concat(["a", "b"])) is str


def random_value(generator: random.Random, depth: int, tracked: bool):
    number = len(random_value.sources)
    kind = generator.randrange(8 if depth else 5)
    if kind <= 1:
        text = "".join(generator.choice(ALPHABET) for _ in range(generator.randrange(5)))
        random_value.sources.append(text)
        return of_part(text, number)
    if kind == 2:
        random_value.sources.append("0")
        return number_of_part(generator.choice([0, -3, 10**20, 1.5, 1e300]), number)
    if kind <= 4:
        return generator.choice([None, True, False, [], {}])
    if kind == 5:
        return [random_value(generator, depth - 1, tracked) for _ in range(generator.randrange(4))]
    return {generator.choice("abcdé\"") * n: random_value(generator, depth - 1, tracked)
            for n in range(1, generator.randrange(2, 5))}


@pytest.mark.parametrize("options", [
    {}, {"indent": 4}, {"indent": 0}, {"ensure_ascii": True}, {"sort_keys": True},
    {"separators": (",", ":")}, {"indent": "\t", "separators": (", ", " = ")}])
def test_json_of_tracked_values_is_that_of_plain_ones(options):
    generator = random.Random(5)
    for _ in range(300):
        random_value.sources = []
        value = random_value(generator, 3, True)
        got = dumps(value, **options)
        assert plain(got) == json.dumps(value, **{"ensure_ascii": False, **options})
        for begin, end, part, *_ in spans_of(got):
            source = random_value.sources[part]
            assert source == "0" or json.loads(f'"{plain(got)[begin:end]}"') == source


def rendered(source: str, **variables):
    template = ChatTemplate({"default": source}, variables, "test")
    return template.render([{"role": "user", "content": of_part(" ab </t> cd\n", 0)}], None)


@pytest.mark.parametrize("expression, wanted", [
    ("m.content", " ab </t> cd\n"), ("'x' + m.content + 'y'", "x ab </t> cd\ny"),
    ("'x' ~ m.content ~ 1", "x ab </t> cd\n1"), ("m.content | trim", "ab </t> cd"),
    ("m.content.split('</t>')[-1] | trim", "cd"), ("[m.content, 'q'] | join(';')", " ab </t> cd\n;q"),
    ("'/'.join([m.content, 'q'])", " ab </t> cd\n/q"), ("m.content | upper", " AB </T> CD\n"),
    ("m.content | tojson", '" ab </t> cd\\n"'), ("{'k': m.content} | tojson", '{"k": " ab </t> cd\\n"}'),
    ("m.content | string | replace('ab', 'x')", " x </t> cd\n"), ("m.content[1:3]", "ab"),
    ("m['content'].strip().split(' ')[0]", "ab"), ("(m.content ~ '') | trim", "ab </t> cd"),
    ("m.content | safe", " ab </t> cd\n"), ("m.content | default('x')", " ab </t> cd\n")])
def test_templates_keep_origins_through_what_they_do_to_a_text(expression, wanted):
    result = rendered("{%- for m in messages %}{{ " + expression + " }}{% endfor %}")
    assert result.text == wanted
    assert result.spans


@pytest.mark.parametrize("source", [
    "{% macro say(m) %}[{{ m.content }}]{% endmacro %}{% for m in messages %}{{ say(m) }}{% endfor %}",
    "{% for m in messages %}{% set c %}<{{ m.content }}>{% endset %}{{ c }}{% endfor %}",
    "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content %}{% endfor %}{{ ns.t }}",
    "{% for m in messages %}{% filter trim %}{{ m.content }}{% endfilter %}{% endfor %}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"])
def test_templates_keep_origins_through_macros_blocks_and_namespaces(source):
    result = rendered(source)
    [(begin, end, part, source_begin, source_end)] = result.spans
    assert part == 0
    assert result.text[begin:end] == " ab </t> cd\n"[source_begin:source_end]


def test_a_list_that_is_printed_is_no_text_of_the_record():
    template = ChatTemplate({"default": "{{ messages[0].content }}"}, {}, "test")
    result = template.render([{"role": "user", "content": [{"type": "text", "text": of_part("a", 0)}]}], None)
    assert result.text == "[{'type': 'text', 'text': 'a'}]"
    assert result.spans == []


def test_plain_messages_render_as_jinja_renders_them():
    source = "{% for m in messages %}{{ m.role ~ ': ' ~ (m.content | trim) }}{% endfor %}"
    messages = [{"role": "user", "content": " a "}]
    got = ChatTemplate({"default": source}, {}, "test").render(messages, None)
    assert got.text == jinja2.Template(source).render(messages=messages)
    assert not isinstance(got.text, Tracked)


@pytest.mark.parametrize("expression", [
    "'%s|%s' | format(m.content, 1)", "'%(a)s' | format(a=m.content)", "'%s' % m.content",
    "'%s: %40s %%' % ('k', m.content)", "'%-40s|%d' % (m.content, 5)", "'{}'.format(m.content)",
    "'{0}-{a}'.format(m.content, a=m.role)", "'{:>60}'.format(m.content)", "m.content | indent(2)",
    "m.content | indent('> ', true, true)", "m.content | e", "'<a>' ~ (m.content | e)", "m.content | forceescape",
    "m.content | replace('\"', '\\\\\"')", "m.content | replace('<', '&lt;')", "'<<c>>'.replace('<<c>>', m.content)",
    "'<<c>>' | replace('<<c>>', m.content)", "m.content | title", "m.content | wordwrap(8)", "m.content | center(80)",
    "m.content * 2", "m.content | urlencode", "m.content | list | join", "[m.content, m.role] | join(', ')",
    "messages | map(attribute='content') | join", "m.content.splitlines() | join('\n')", "m.content.ljust(70)"])
def test_formats_and_filters_give_what_transformers_prints_and_lose_nothing(expression):
    from transformers.utils.chat_template_utils import _compile_jinja_template  # takes seconds
    content = 'x <b> & "q"\n\nline two\'s </t> cd\n'
    source = "{%- for m in messages %}{{ " + expression + " }}{% endfor %}"
    wanted = _compile_jinja_template(source).render(messages=[{"role": "user", "content": content}])
    tracked = track([{"role": "user", "content": content}], None)
    result = ChatTemplate({"default": source}, {}, "test").render(tracked.messages, None)
    assert result.text == wanted
    assert list(lost_parts(tracked.parts, result)) == []


@pytest.mark.parametrize("expression", ["m.content | truncate(12)", "m.content[:9]", "m.content | striptags",
                                        "m.content | replace('line', 'word')", "m.content.split()[0]"])
def test_what_a_filter_takes_out_is_lost(expression):
    tracked = track([{"role": "user", "content": "x <b>\n\nline two's </t> cd"}], None)
    source = "{%- for m in messages %}{{ " + expression + " }}{% endfor %}"
    result = ChatTemplate({"default": source}, {}, "test").render(tracked.messages, None)
    assert list(lost_parts(tracked.parts, result))


def learned(source: str, messages: list[dict], tools=None) -> list[str]:
    mask = ChatMask(ChatTemplate({"default": source}, {"eos_token": "</s>"}, "test"), MaskOptions(),
                    ["<s>", "</s>"], ["<s>", "</s>", "<end>"])
    rendered = mask.render(read_messages(messages, tools))
    return [rendered.text[begin:end] for begin, end, _ in rendered.learned]


ASKED = {"role": "user", "content": "Name a bird."}
CALLS = [{"function": {"name": "find", "arguments": {"of": ["a", {"b": 12}], "n": 3}}}]
LOOP = "{% for m in messages %}{{ m.role ~ ':' }}"
END = "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"


@pytest.mark.parametrize("body, answer, wanted", [
    ("{% for p in m.content %}{{ p.text }}{% endfor %}", {"content": "A heron."}, "A heron.</s>"),
    ("{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}"
     "{{ p.text }}{% else %}{{ '[THINK]' + p.thinking + '[/THINK]' }}{% endif %}{% endfor %}{% endif %}",
     {"content": "A heron.", "reasoning_content": "It wades."}, "[THINK]It wades.[/THINK]A heron.</s>"),
    ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function.name }}({% for k, v in c.function.arguments "
     "| items %}{{ k }}={{ v }},{% endfor %}){% endfor %}", {"content": "", "tool_calls": CALLS},
     "find(of=['a', {'b': 12}],n=3,)</s>"),
    ("{{ m.content or '' }}{% if m.tool_calls %}{{ m.tool_calls }}{% endif %}", {"content": "", "tool_calls": CALLS},
     "[{'function': {'name': 'find', 'arguments': {'of': ['a', {'b': 12}], 'n': 3}}}]</s>"),
    ("{{ m.content }}{# {% generation %} #}", {"content": "A heron."}, "A heron.</s>"),
    ("{{ m.content }}{{ m.content }}", {"content": "A heron."}, "A heron.A heron.</s>")])
def test_templates_get_the_form_that_they_print_and_turns_end_after_it(body, answer, wanted):
    turn = {"role": "assistant", **answer}
    assert learned(LOOP + body + END, [ASKED, turn, ASKED, turn]) == [wanted] * 2


def test_the_json_of_parts_of_a_content_is_no_text_of_the_record():
    parts = {"role": "assistant", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "heron."}]}
    assert learned(LOOP + "{{ m.content | tojson }}" + END, [ASKED, parts]) == ['"A heron."</s>']
    with pytest.raises(ValueError, match="leaves its reasoning out"):
        learned(LOOP + "{{ m.content | tojson }}" + END,
                [ASKED, {"role": "assistant", "content": "A heron.", "reasoning_content": "It wades."}])


def test_tools_that_are_printed_as_python_does_are_not_lost():
    tools = [{"type": "function", "function": {"name": "find", "description": "Finds \"it\".",
                                               "parameters": {"type": "object", "properties": {"of": {"type": "string"}}}}}]
    assert learned("{{ tools ~ '' }}" + LOOP + "{{ m.content }}" + END, [ASKED, {"role": "assistant", "content": "A."}],
                   tools) == ["A.</s>"]


def test_the_fault_of_a_form_that_leaves_nothing_out_is_reported():
    with pytest.raises(ValueError, match="ends in no special token"):
        learned(LOOP + "{{ m.content }}" + END.replace("{{ eos_token }}", ""), [ASKED, {"role": "assistant", "content": "A."}])
