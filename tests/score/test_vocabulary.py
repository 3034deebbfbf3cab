"""The table of words says each thing once."""

from collections import Counter

from tonnage.score.vocabulary import RULES


def test_no_rule_hides_a_later_one_of_the_same_words() -> None:
    told = Counter((rule.column, rule.pattern) for rule in RULES)
    assert [words for words, times in told.items() if times > 1] == []
