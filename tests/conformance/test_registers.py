"""Registers, tests, modules and texts agree; and each way of not agreeing is found."""

import pytest

from kit import given

TEXT = """# A specification

## 2. Words

The key words are MUST and so on. This sentence says nothing.

### 2.1. Thing

- Description: A thing MUST be
  whole (e.g. Round). It must not count; it
  SHOULD NOT be red. It is fine.
- Constraints:
  - OPTIONAL

**`part`**

- size (number) - REQUIRED. How large it is.

```
a block of code MAY say anything
```

#### REQUIRED parts
"""

SENTENCES = [
    ("2", "The key words are MUST and so on."),
    ("2.1", "A thing MUST be whole (e.g. Round)."),
    ("2.1", "It must not count; it SHOULD NOT be red."),
    ("2.1", "OPTIONAL"),
    ("2.1 part", "size (number) - REQUIRED. How large it is."),
    ("2.1 REQUIRED parts", "REQUIRED parts"),
]

UNNUMBERED = """# A specification

## Resources

One MAY be there.

### Thing

#### Spec:

<table>
  <tr>
    <td><strong>Field</strong></td>
    <td><strong>What</strong></td>
  </tr>
  <tr>
    <td><code>size</td>
    <td>[]<a href="#int">int</a><br/>(REQUIRED)</td>
    <td>How large. It <strong>MUST</strong> be odd.</td>
  </tr>
</table>

It SHOULD be round.

## Codes

| Code  | Meaning |
| ----- | ------- |
| `200` | Fine    |
| other | Not     |

\\* It MAY be.
"""

UNNUMBERED_SENTENCES = [
    ("Resources", "One MAY be there."),
    ("Thing / Spec size", "[] int (REQUIRED)"),
    ("Thing / Spec size", "It MUST be odd."),
    ("Thing / Spec", "It SHOULD be round."),
    ("Codes", "| `200` | Fine |"),
    ("Codes", "| other | Not |"),
    ("Codes", "\\* It MAY be."),
]


def test_registers_tests_and_modules_agree(clauses):
    """Every clause is shown by a test or says why not; every mark names a clause."""
    assert clauses.faults(clauses.read_registers(), clauses.read_marks()) == []


def test_every_sentence_of_the_texts_has_a_clause(clauses):
    """All that say MUST, SHOULD or MAY, in all four texts; the failure names the rest."""
    texts = clauses.read_texts(given.needed(given.TEXTS))
    assert set(texts) == {"000", "001", "003", "004"}
    assert clauses.sentence_faults(texts) == []


def test_sentences_are_found_wherever_they_stand(clauses):
    """In paragraphs, items of lists and headings; code says nothing."""
    assert [tuple(each) for each in clauses.read_sentences(TEXT)] == SENTENCES


def test_tables_and_headings_without_numbers_are_read(clauses):
    """Cells of HTML tables by the field of their row; rows with bars whole, whatever they say."""
    assert [tuple(each) for each in clauses.read_sentences(UNNUMBERED)] == UNNUMBERED_SENTENCES


def test_a_sentence_without_a_clause_is_named(clauses):
    """And so is a reference to a sentence that is gone."""
    (first, *others) = clauses.sentence_faults({"004": "# A\n\nIt MUST be new.\n"})
    assert "'It MUST be new.'" in first
    assert first.startswith("no clause")
    assert all("no such sentence" in fault for fault in others)
    assert len(others) > 200


GOOD = {"id": "subscriptions-api.x", "level": "MUST", "reading": "x", "modules": ["core.flow"]}


@pytest.mark.parametrize(
    ("changes", "marks", "fault"),
    [
        ({}, [], "no test is marked"),
        ({"state": "departure", "why": "so"}, [], "no test is marked"),
        ({"state": "unmet"}, [], "without a reason"),
        ({"state": "unmet", "why": "so"}, ["subscriptions-api.x"], "yet a test is marked"),
        ({"state": "outside", "why": "so"}, ["subscriptions-api.x"], "yet a test is marked"),
        ({"modules": []}, ["subscriptions-api.x"], "no module is named"),
        ({"modules": ["no.such"]}, ["subscriptions-api.x"], "there is no module no.such"),
        ({"level": "SHALL"}, ["subscriptions-api.x"], "level 'SHALL'"),
        ({"sentences": ["004 3 x"]}, ["subscriptions-api.x"], "not a reference"),
        ({"section": ""}, ["subscriptions-api.x"], "no sentence and no section"),
        ({}, ["subscriptions-api.x", "subscriptions-api.y"], "no register has this clause"),
        ({}, ["subscriptions-api.x", "other.y"], "the mark says level and reading"),
    ],
)
def test_what_does_not_agree_is_named(clauses, changes, marks, fault):
    """One fault each."""
    clause = clauses.Clause(**({"section": "3.2"} | GOOD | changes))
    given = [clauses.Mark(id_, "", "", "test_x", "tests/x.py") for id_ in marks]
    (found,) = clauses.faults([clause], given)
    assert fault in found


def test_a_mark_of_another_level_and_a_clause_that_stands_twice_are_named(clauses):
    """Both at once."""
    clause = clauses.Clause(**GOOD, section="3.2")
    mark = clauses.Mark(clause.id, "MAY", "x", "test_x", "tests/x.py")
    assert len(clauses.faults([clause, clause], [mark])) == 2


def test_marks_are_found_in_decorators_and_parameters(clauses, tmp_path):
    """A mark may stand on a test or on one of its parameters; level and reading are optional."""
    (tmp_path / "test_x.py").write_text(
        "@pytest.mark.clause('a.2', 'MUST', reading='one')\n"
        "@pytest.mark.clause('a.3')\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.clause('a.10', 'MAY',"
        " 'two'))])\ndef test_it(x): ...\n"
    )
    found = list(clauses.read_marks(tmp_path, tmp_path))
    assert [mark[:3] for mark in found] == [
        ("a.2", "MUST", "one"),
        ("a.3", "", ""),
        ("a.10", "MAY", "two"),
    ]
    assert found[0].link == "[test_it](../test_x.py)"
