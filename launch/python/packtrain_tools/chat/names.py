"""Names in messages: those of roles, and the keys of the role and the content."""

from dataclasses import dataclass

from packtrain_tools.chat.values import kind

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
CALL = "function_call"  # a turn of the assistant that is a call, as JSON in its content
ALIASES = {"human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant",
           "bot": "assistant", "chatbot": "assistant", "model": "assistant", "ai": "assistant",
           "observation": "tool", "ipython": "tool", "function": "tool",
           "function_response": "tool", "tool_response": "tool", "tool_call": CALL, CALL: CALL}
_ROLES = {role: role for role in ROLES} | ALIASES
_ROLE_KEYS = ("from", "speaker", "author", "sender")  # where there is no `role`
_CONTENT_KEYS = ("value", "text", "message", "parts")  # where there is no `content`


@dataclass(frozen=True, slots=True)
class Names:
    roles: dict[str, str]  # name in the data: our name
    role_key: str | None = None  # in messages, where the command names it
    content_key: str | None = None

    def shown_roles(self) -> str:
        return ", ".join(dict.fromkeys([*ROLES[:-1], *self.roles]))


DEFAULT_NAMES = Names(_ROLES)


def make_names(roles: list[tuple[str, str]], role_key: str | None = None,
               content_key: str | None = None) -> Names:
    """`roles`: (ours, theirs), which take precedence over the known names."""
    return Names(_ROLES | {theirs: ours for ours, theirs in roles}, role_key, content_key)


def named_message(entry: object, names: Names) -> dict:
    """A copy without nulls, with the keys `role` and, where it has content, `content`. The role is
    one of ROLES or CALL. Raises ValueError."""
    if not isinstance(entry, dict):
        raise ValueError(f"is {kind(entry)}, wanted an object with 'role' and 'content'")
    message = {key: value for key, value in entry.items() if value is not None}
    role_key = names.role_key if names.role_key is not None and names.role_key in message \
        else _role_key(message, names)
    role = message.pop(role_key)
    content_key = names.content_key if names.content_key in message \
        else _content_key(message, role_key)
    if content_key not in (None, "content"):
        message["content"] = message.pop(content_key)
    message["role"] = _role(role, names)
    return message


def _role_key(message: dict, names: Names) -> str:
    if "role" in message:
        return "role"
    found = [key for key in _ROLE_KEYS if isinstance(message.get(key), str)]
    user = message.get("user")
    if not found and isinstance(user, str) and user in names.roles:
        return "user"
    if len(found) != 1:
        what = f"has {_listed(found)}, each of which may be the role" if found \
            else "is no object with a 'role'"
        raise ValueError(f"{what} (--message-key role=YOURS says what yours is called)")
    return found[0]


def _content_key(message: dict, role_key: str) -> str | None:
    if "content" in message:
        return "content"
    if role_key == "from" and "value" in message:
        return "value"
    found = [key for key in _CONTENT_KEYS if key in message]
    if len(found) > 1:
        raise ValueError(f"has {_listed(found)}, each of which may be the content "
                         "(--message-key content=YOURS says what yours is called)")
    return found[0] if found else None


def _role(role: object, names: Names) -> str:
    if not isinstance(role, str):
        raise ValueError(f"has the role {kind(role)}, wanted a string")
    plain = role.strip().lower().replace("-", "_").replace(" ", "_")
    found = names.roles.get(role) or names.roles.get(role.lower()) or names.roles.get(plain)
    if found is None:
        raise ValueError(f"has the role '{role}', wanted one of {names.shown_roles()} "
                         "(--role OURS=YOURS says what yours is called)")
    return found


def _listed(names: list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
