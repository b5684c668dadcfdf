"""Finds sentences without a main verb: a heuristic that misses some and names no whole sentence."""

import re

# Words that are a finite verb, or may be one; a noun of the same form counts as a verb.
_AUXILIARIES = """is are was were has have had does do did can cannot may might must will would shall should
could needs need let isn't aren't doesn't don't can't won't""".split()
_STEMS = """add agree allow allocate answer appear apply ask assume become begin belong bind block break bring
build call carry cast cause change check choose clear close collect come compare compile compute contain continue
copy cost count cover create cut decide declare decode define depend describe detect differ divide draw drop embed
end enter equal exceed exist exit expect export fail fall fill find finish fit fix flush follow free gather get
give go grow guard handle hang happen help hide hold import include increase infer insert keep know lack
launch lead leave lie limit link list load lock look lose lower make map mark match matter mean measure meet
merge move multiply name order overlap own pack pad pass pay pick plan point prepare print produce promise
prove put raise reach read receive record reduce refuse remain remove rename repeat replace require reset resize
resume return reuse round run save say scale scan see seem select send serve set share shift show sit skip sleep
slow sort split stand start stay step stop store sum swap take tell test throw time touch track train
travel treat try turn update use vary wait want warn win wish work wrap write yield overflow underflow round
accept accumulate access align arrive average benefit cross cluster differ ensure evict fetch fuse gain
guarantee ignore inherit install instruct issue join judge leak mask mirror normalize
occur occupy operate own parse perform permute place preserve process propagate quantize rank reject rely
report reserve restart retain rotate sample schedule scatter search shrink signal sync terminate
traverse trigger truncate unpack validate verify view visit""".split()
_PAST = """began became broke brought built came chose cut did drew fell found gave got grew held kept knew laid
led left lay lost made meant met paid put ran read rose said sat saw sent set stood stopped took told threw went
won wrote lasts""".split()
_HAS_SUBORDINATE_VERB = {"that", "which", "who", "whom", "whose", "where", "when", "if", "because", "while", "as", "what",
                         "whether", "how", "until", "unless", "why", "whatever"}
_BEFORE_PARTICIPLE = {"is", "are", "was", "were", "be", "been", "being", "has", "have", "had", "not", "yet", "to", "and",
                      "or", "by", "all", "also", "only", "just"}


def _third_person(stem: str) -> str:
    if stem.endswith(("s", "x", "ch", "sh", "o")):
        return stem + "es"
    if stem.endswith("y") and stem[-2] not in "aeiou":
        return stem[:-1] + "ies"
    return stem + "s"


_VERBS = {*_AUXILIARIES, *_STEMS, *map(_third_person, _STEMS), *_PAST}


def _num_verbs(words: list[str]) -> int:
    number = 0
    for before, word in zip(["", *words], words, strict=False):
        is_past = word.endswith("ed") and word not in ("need", "seed", "embed", "speed")
        if word in _VERBS or is_past:
            # "is kept", "to keep": one verb, or none.
            number += before not in _BEFORE_PARTICIPLE or word in _AUXILIARIES
    return number


def is_fragment(sentence: str) -> bool:
    """True for a sentence that starts with Of, With, Until, What or Whether and has too few verbs.
    Each clause (that, which, when, ..., What, Whether, Until) takes one verb. One more must remain."""
    first = re.match(r"(Of|With|Until|What|Whether)\s", sentence)
    if not first or sentence.rstrip().endswith("?") or re.search(r"[;:][^`]*\w", sentence) and first[1] == "What":
        return False
    text = re.sub(r"`[^`]*`", "code", sentence)
    words = re.findall(r"[a-z']+", text.lower())
    if len(words) < 3 or words[1] in ("then", "now", "course"):
        return False
    num_clauses = sum(word in _HAS_SUBORDINATE_VERB for word in words)
    return _num_verbs(words) <= num_clauses
