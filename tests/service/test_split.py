"""The public split of an A/B test: PostgreSQL computes what Python does."""

from pathlib import Path

from discreet.evaluation.assignment import position

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_split__is_the_same_in_postgresql(postgresql):
    sql = PAGE.read_text().split("```sql")[1].split("```")[0]
    people = ["ada", "Zoë", "17", "o'neill", ""]
    rows = ", ".join("('{}')".format(each.replace("'", "''")) for each in people)
    with postgresql._admin.connect() as connection:
        found = connection.exec_driver_sql(f"WITH people(id) AS (VALUES {rows}) {sql} FROM people")
        assert [float(u) for u in found.scalars()] == [
            position("checkout-1", each) for each in people
        ]
