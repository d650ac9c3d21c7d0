"""The public split of an A/B test: PostgreSQL computes what Python does."""

from discreet.evaluation import assignment


def test_split__is_the_same_in_postgresql(postgresql):
    documented = assignment.__doc__.split("PostgreSQL:")[1].split("A browser")[0]
    sql = documented.replace("SALT:", "colours:")
    people = ["ada", "Zoë", "17", "o'neill", ""]
    rows = ", ".join("('{}')".format(each.replace("'", "''")) for each in people)
    with postgresql._admin.connect() as connection:
        found = connection.exec_driver_sql(f"WITH people(id) AS (VALUES {rows}) {sql} FROM people")
        assert [float(u) for u in found.scalars()] == [
            assignment.position("colours", each) for each in people
        ]
