"""The Jinja environment of transformers' `apply_chat_template`, in which texts stay tracked."""

import datetime
import inspect

import jinja2
import jinja2.compiler
import jinja2.ext
import jinja2.sandbox

from packtrain_tools.chat import tracked
from packtrain_tools.chat.tracked_json import dumps

GENERATED = -1  # the part of what {% generation %} encloses


class _Generation(jinja2.ext.Extension):
    tags = {"generation"}

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
        """`a ~ b`: Jinja's own function makes a plain string."""
        self.write("environment.concat((")
        for each in node.nodes:
            self.write("str(")
            self.visit(each, frame)
            self.write("), ")
        self.write("))")


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    code_generator_class = _CodeGenerator
    concat = staticmethod(tracked.concat)

    def call(self, context, obj, *args, **kwargs):
        """A plain string's `join` makes a plain string of tracked ones."""
        if inspect.isbuiltin(obj) and obj.__name__ == "join" and type(obj.__self__) is str and args:
            return tracked.join(obj.__self__, args[0])
        return super().call(context, obj, *args, **kwargs)


def _join_filter(value, d="", attribute=None):
    if attribute is not None:
        value = (item[attribute] for item in value)
    return tracked.join(str(d), [str(item) for item in value])


def make_environment(date: datetime.datetime, note_date) -> jinja2.Environment:
    """`date`: what templates take for today. `note_date()` is called when one asks for it."""
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def strftime_now(form):
        note_date()
        return date.strftime(form)

    environment = _Environment(trim_blocks=True, lstrip_blocks=True,
                               extensions=[_Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = dumps
    environment.filters["join"] = _join_filter
    environment.filters["safe"] = lambda value: value  # nothing is escaped here
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment
