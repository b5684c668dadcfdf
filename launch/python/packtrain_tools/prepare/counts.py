"""The events that are counted while data become examples (EncodedChunk.counts): a sentence for each, with
advice."""

from packtrain_tools.chat.mask import UNREAD_KEY

OVERLAPS = "overlaps"

SENTENCES = {
    "empty_answers":
        "Answers that are empty or only white space: {n}. The model learns to say nothing there; "
        "remove them from the data if it should not.",
    "missing_values":
        "Answers, inputs or system prompts that are only the name of a missing value, such as nan or None: {n}. "
        "Leave such values empty, or the records out, if they are no text.",
    "media_placeholders":
        "Records with the place of a picture, a film or a sound, such as <image>: {n}. Only text is learned, so "
        "answers about it are about nothing; leave such records out.",
    "replaced_characters":
        "Records with the character U+FFFD, which stands for bytes that were no text: {n}. They were probably read in "
        "another encoding than they were written in.",
    "equal_answers":
        "Pairs of equal answers that were left out: {n}. Neither is better, so there is nothing to learn.",
    "doubled_prompts":
        "Pairs whose two texts begin with the text of their prompt: {n}. It is in the examples twice. Where the "
        "texts are whole, --column prompt= finds the prompt in them.",
    "unlearned_preferences":
        "Preferences with nothing to predict in an answer: {n}. They were left out.",
    "unlearned_rollouts":
        "Rollouts with nothing to learn: {n}. They were left out.",
    "single_rollouts":
        "Prompts with one rollout: {n}. It is compared with no other, so its advantage is 0.",
    "equal_rewards":
        "Prompts whose rollouts all have the same reward: {n}. Their advantages are 0.",
    "repeated_prompts":
        "Prompts that occurred before, with others between them: {n}. Each is a group of its own; sort the "
        "records by prompt where the rollouts belong together.",
    "undesirable":
        "Undesirable answers that --only-chosen left out: {n}.",
    "empty_thoughts":
        "Answers that begin with an empty thought which the chat template adds: {n}. The model learns "
        "not to think; --template-option enable_thinking=false makes the empty thought part of the "
        "prompt where the template knows that option.",
    "cut_answers":
        "Answers that were cut off, by their 'finish_reason' or 'stop_reason': {n}. The model learns to stop there; "
        "remove them from the data if it should not.",
    "open_thoughts":
        "Answers whose thought does not end (<think> without </think>): {n}. They were probably cut off, and the "
        "model learns to stop in a thought; remove them from the data if it should not.",
    "thoughts_alone":
        "Answers of a thought and nothing after it: {n}. They were probably cut off, and the model learns to say "
        "nothing; remove them from the data if it should not.",
    "dropped_thoughts":
        "Thoughts of earlier turns that the chat template leaves out: {n}. They are not in the store; "
        "in supervised data --train-on each-turn learns each of them, in an example of its own.",
    "assistant_begins":
        "Conversations that the assistant begins: {n}. They are trained from the first turn that answers "
        "a message on; \"train\": true of a message learns it all the same.",
    "left_out_parts":
        "Parts of conversations that the chat template leaves out: {n}. The model sees the rest.",
    "merged_system":
        "Conversations with several system messages, or one that the chat template does not know: {n}. "
        "Their text was added to another message; look at the samples.",
    "special_tokens_in_data":
        "Names of special tokens that are written in the data: {n}. --special-tokens-in-data says "
        "whether they are read as tokens (the default), as plain text, or refused.",
    "ended_already":
        "Texts and messages that have their end token already: {n}. No second one was added.",
    "begun_already":
        "Texts that have the beginning-of-text token already: {n}. No second one was added.",
    "cut_to_nothing":
        "Examples with nothing to learn once they were cut to --max-length: {n}. They were left out; "
        "give a larger --max-length, or --too-long turns.",
    "truncated":
        "Examples that were cut at --max-length: {n}. Their ends are not learned.",
    "dropped_too_long":
        "Examples longer than --max-length that were left out: {n}.",
    "too_short":
        "Examples shorter than --min-length that were left out: {n}.",
    "cut_turns":
        "Messages that were left out of conversations longer than --max-length: {n}. Give a larger "
        "--max-length to keep them.",
    "copied_tokens":
        "Tokens that --train-on each-turn repeats, as the beginnings of later examples: {n}. Training "
        "takes longer for them. --train-on assistant repeats none, where the template allows it; --group-turns "
        "computes most of them once.",
    "rounded_weights":
        "Weights of messages that were rounded to two decimals: {n}. A store holds hundredths.",
    OVERLAPS:
        "Validation examples with the same tokens as a training example: {n}. Prepare with "
        "--deduplicate, or with --group-by where the data names what belongs together.",
}


def _sentence(name: str) -> str:
    key = name.removeprefix(UNREAD_KEY)
    if key != name:
        return (f"Messages with the key '{key}', which neither prepare nor the chat template reads: {{n}}. Its value "
                "is not in the store.")
    return SENTENCES.get(name, f"{name.replace('_', ' ')}: {{n}}.")


def in_order(counts: dict[str, int]) -> dict[str, int]:
    """Counts that are not zero: known ones in the order above, then others by name."""
    known = [name for name in SENTENCES if name in counts]
    return {name: counts[name] for name in known + sorted(set(counts) - set(known))
            if counts[name]}


def sentences(counts: dict[str, int]) -> list[str]:
    return [_sentence(name).format(n=f"{number:,}")
            for name, number in in_order(counts).items()]
