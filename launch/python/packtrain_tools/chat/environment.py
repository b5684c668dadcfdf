"""The Jinja environment of transformers' `apply_chat_template`, in which texts stay tracked."""

import datetime
import inspect

import jinja2
import jinja2.compiler
import jinja2.ext
import jinja2.filters
import jinja2.sandbox
import markupsafe

from packtrain_tools.chat import tracked
from packtrain_tools.chat.tracked_format import TrackedFormatter, aligned, escape, indent, percent
from packtrain_tools.chat.tracked_json import dumps

GENERATED = -1  # part number of the text that {% generation %} encloses


class _Generation(jinja2.ext.Extension):
    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller) -> str:
        text = caller()
        spans = [*tracked.spans_of(text), (0, len(text), GENERATED, 0, len(text))]
        return tracked.with_spans(tracked.plain(text), spans) if text else text


class _CodeGenerator(jinja2.compiler.CodeGenerator):
    def visit_Concat(self, node, frame):
        """Compiles `a ~ b` to a tracked function, because Jinja's own makes a plain string."""
        self.write("environment.concat((")
        for each in node.nodes:
            self.write("str(")
            self.visit(each, frame)
            self.write("), ")
        self.write("))")


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    code_generator_class = _CodeGenerator
    concat = staticmethod(tracked.concat)
    intercepted_binops = frozenset("%")

    def call(self, context, obj, *args, **kwargs):
        """Replaces methods of plain strings that would lose the spans of their arguments."""
        if inspect.isbuiltin(obj) and obj.__name__ in ("join", "replace") and type(obj.__self__) is str:
            obj = getattr(tracked.as_tracked(obj.__self__), obj.__name__)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context, operator, left, right):
        if operator == "%" and isinstance(left, str) and not isinstance(left, markupsafe.Markup):
            return percent(left, right)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value):
        wrapped = super().wrap_str_format(value)
        if wrapped is None or isinstance(value.__self__, markupsafe.Markup):
            return wrapped
        form, formatter = tracked.plain(value.__self__), TrackedFormatter(self)
        if value.__name__ == "format_map":
            return lambda mapping: formatter.vformat(form, (), mapping)
        return lambda *args, **kwargs: formatter.vformat(form, args, kwargs)


def _join(value, d="", attribute=None):
    if attribute is not None:
        value = (item[attribute] for item in value)
    return tracked.join(str(d), [str(item) for item in value])


def _replace(value, old, new, count=None):
    return tracked.as_tracked(str(value)).replace(str(old), str(new), -1 if count is None else count)


def _format(value, *args, **kwargs):
    if args and kwargs:
        return jinja2.filters.do_format(value, *args, **kwargs)  # raises: both are not allowed
    return percent(value if isinstance(value, str) else str(value), kwargs or args)


def _number(own):
    """`int` and `float`, which return numbers of the record unchanged."""
    def number(value, *args, **kwargs):
        made = own(value, *args, **kwargs)
        return value if type(value) in (tracked.TrackedInt, tracked.TrackedFloat) and \
            isinstance(value, type(made)) else made
    return number


def _changing(own, may_rewrite: bool, takes_environment: bool = False):
    """Filters that change a text only in some places."""
    def change(environment, value, *args, **kwargs):
        first = (environment,) if takes_environment else ()
        made = own(*first, value, *args, **kwargs)
        return aligned(value, str(made), may_rewrite) if type(value) is tracked.Tracked else made
    return jinja2.pass_environment(change)


def _filters(own: dict) -> dict:
    """Jinja's filters that would lose the origin of a text."""
    return {
        "tojson": dumps, "join": _join, "replace": _replace, "format": _format,
        "safe": lambda value: value,  # the environment escapes nothing
        "escape": escape, "e": escape, "forceescape": escape,
        "indent": lambda value, *args, **kwargs: own["indent"](value, *args, **kwargs)
        if isinstance(value, markupsafe.Markup) else indent(value, *args, **kwargs),
        "int": _number(own["int"]), "float": _number(own["float"]),
        "title": _changing(own["title"], True), "urlencode": _changing(own["urlencode"], True),
        "striptags": _changing(own["striptags"], False),
        "wordwrap": _changing(own["wordwrap"], True, takes_environment=True),
        "truncate": _changing(own["truncate"], False, takes_environment=True)}


def make_environment(date: datetime.datetime, note_date) -> jinja2.Environment:
    """`date`: today's date for templates. Calls `note_date()` when a template asks for it."""
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def strftime_now(form):
        note_date()
        return date.strftime(form)

    environment = _Environment(trim_blocks=True, lstrip_blocks=True,
                               extensions=[_Generation, jinja2.ext.loopcontrols])
    environment.filters |= _filters(environment.filters)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment
