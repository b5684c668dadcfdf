"""Chat templates are read from the files of a tokenizer's folder. A file that holds none is a named error."""

import pytest
import prepare_program  # noqa: F401  puts packtrain_tools on the path

from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.errors import ToolError

MESSAGES = [{"role": "user", "content": "q"}]


def test_a_byte_order_mark_is_no_text_of_a_template(tmp_path):
    path = tmp_path / "a.jinja"
    path.write_text("{{ messages[0].content }}", encoding="utf-8-sig")
    template = load_chat_template(str(tmp_path), str(path), {}, {})
    assert template.render(MESSAGES, None).text == "q"


@pytest.mark.parametrize("told, what", [
    ({"default": "a"}, "is an object"), (5, "is 5"), ([{"name": "default"}], "holds an object"), (["a"], 'holds "a"'),
    ([{"name": "default", "template": None}], "holds an object"), ([None], "holds null")])
def test_a_setting_that_is_no_template_is_named(tmp_path, told, what):
    wanted = rf"tokenizer_config.json: 'chat_template' {what}, wanted text or a list of"
    with pytest.raises(ToolError, match=wanted) as error:
        load_chat_template(str(tmp_path), None, {"chat_template": told}, {})
    assert "--chat-template FILE" in error.value.advice


@pytest.mark.parametrize("told", [None, "", []])
def test_an_empty_setting_is_no_template(tmp_path, told):
    assert load_chat_template(str(tmp_path), None, {"chat_template": told}, {}) is None
