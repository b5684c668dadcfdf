"""The result for each key of an imported configuration."""

from dataclasses import dataclass, field

from packtrain_tools.importing.keys import Keys, leaves

SECTIONS = ("model", "adapter", "data", "batch", "optimizer", "schedule", "parallel", "precision", "checkpoint",
            "memory", "run", "samples")
OFF = (None, False, 0, "", "no", "none", "false")


@dataclass(frozen=True)
class Carried:
    keys: tuple[str, ...]  # of the file; empty: their default, which differs from ours
    to: str
    value: object
    note: str


@dataclass(frozen=True)
class Left:
    key: str
    reason: str
    matters: bool  # training gives other results, or needs something from the user


@dataclass
class Conversion:
    keys: Keys
    kind: str  # the name of the other trainer
    num_ranks: int
    settings: dict[str, dict] = field(default_factory=dict)  # by section
    carried: list[Carried] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)  # to run before training
    _done: set[str] = field(default_factory=set)

    def write(self, ours: str, value: object, *theirs: str, note: str = ""):
        """Writes our key. `theirs`: the keys that say so; none where it is the default of the other trainer."""
        section, _, key = ours.partition(".")
        self.settings.setdefault(section, {})[key] = value
        self.carried.append(Carried(theirs, ours, value, note))
        self._done.update(theirs)

    def use(self, theirs: str | tuple[str, ...], to: str, value: object = "", note: str = ""):
        """Notes keys that a command takes, not the configuration."""
        theirs = (theirs,) if isinstance(theirs, str) else theirs
        self.carried.append(Carried(theirs, to, value, note))
        self._done.update(theirs)

    def take(self, ours: str, value: object, theirs: str, default: object = None, note: str = ""):
        """The value of their key, or else their default."""
        if value is not None:
            self.write(ours, value, theirs, note=note)
        elif default is not None:
            self.write(ours, default)

    def leave(self, key: str, reason: str, matters: bool = True):
        self.left.append(Left(key, reason, matters))
        self._done.add(key)

    def withdraw(self, ours: str, reason: str):
        """Takes one of our keys back. The keys that said so are listed with the reason."""
        section, _, key = ours.partition(".")
        self.settings.get(section, {}).pop(key, None)
        back = [one for one in self.carried if one.to == ours]
        self.carried = [one for one in self.carried if one.to != ours]
        elsewhere = {name for one in self.carried for name in one.keys}
        for name in dict.fromkeys(name for one in back for name in one.keys):
            if name not in elsewhere:
                self.leave(name, reason)

    def flag(self, key: str) -> bool:
        """Returns true for a true key. A false one is listed."""
        value = self.keys.flag(key)
        if value is False:
            self.leave(key, "off", False)
        return bool(value)

    def is_done(self, key: str) -> bool:
        """Returns true where the key, or a mapping that holds it, has been handled."""
        return any(key == done or key.startswith((f"{done}.", f"{done}[")) for done in self._done)

    def leave_all(self, reasons: dict[str, str], matters: bool):
        """`reasons`: names of keys, divided by spaces, by the reason. A name that ends in `*` is a beginning."""
        for reason, names in reasons.items():
            for name in names.split():
                for key in list(self.keys.values):
                    fits = key.startswith(name[:-1]) if name.endswith("*") else key == name
                    if fits and not self.is_done(key):
                        self._leave_value(key, reason, matters)

    def _leave_value(self, key: str, reason: str, matters: bool):
        value = self.keys.values[key]
        if matters and (value in OFF or value in ([], {})):
            self.leave(key, "off" if value is not None else "null: as if it were not there", False)
        else:
            self.leave(key, reason, matters)

    def finish(self):
        """Lists all keys that nothing has handled."""
        for key, value in leaves(self.keys.values):
            if self.is_done(key):
                continue
            if value is None:
                self.leave(key, "null: as if it were not there", False)
            else:
                self.leave(key, f"is no key of {self.kind} that this command knows: look whether it matters")
