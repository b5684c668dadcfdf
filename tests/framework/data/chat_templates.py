"""Small chat templates in the styles of model families, for tests."""

SPECIAL_TOKENS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header|>", "<|end_header|>",
                  "<|eot|>", "[INST]", "[/INST]", "[TOOL_CALLS]", "<start_of_turn>",
                  "<end_of_turn>"]

# A turn between <|im_start|>role and <|im_end|>, tools in the system's turn, calls in tags.
CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\nTools:' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content %}
        {{- '<think>' + message.reasoning_content + '</think>' }}
    {%- endif %}
    {{- message.content or '' }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' + call.function.name + ' ' + (call.function.arguments | tojson) }}
        {{- '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Headers, trimmed contents, a token that begins the text.
HEADERS = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header|>' + message['role'] + '<|end_header|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header|>assistant<|end_header|>\\n\\n' }}
{%- endif %}
"""

# Only what the user says is between marks, the system's words before the last of it.
INST = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- '[INST] ' + message['content'] + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('only user and assistant, got ' + message['role']) }}
    {%- endif %}
{%- endfor %}
"""

# The assistant is called model, roles alternate, a line feed follows the end of a turn.
MODEL_TURNS = """\
{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate user, assistant, user, ...') }}
{% endif %}
{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""

# Reasoning is rendered after the last user's turn only.
FORGETS_REASONING = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content and loop.index0 > ns.last %}
        {{- '<think>' + message.reasoning_content + '</think>' }}
    {%- endif %}
    {{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Marks what the assistant says, but not the token that ends its turn.
MARKED = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {{- message.content }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# The generation prompt opens a thought that answers in the data do not have.
OPENS_THOUGHT = CHATML.replace("assistant\\n' }}\n{%- endif", "assistant\\n<think>' }}\n{%- endif")

# No token ends a turn.
OPEN_TURNS = """\
{%- for message in messages %}
    {{- message.role + ': ' + message.content + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'assistant: ' }}{% endif %}
"""

ALL = {"chatml": CHATML, "headers": HEADERS, "inst": INST, "model_turns": MODEL_TURNS,
       "forgets_reasoning": FORGETS_REASONING, "marked": MARKED, "opens_thought": OPENS_THOUGHT,
       "open_turns": OPEN_TURNS}
