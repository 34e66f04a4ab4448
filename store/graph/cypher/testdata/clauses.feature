Feature: Clauses

  Background:
    Given an empty graph
    And having executed:
      """
      UNWIND [['a', 3], ['b', 1], ['c', 2], ['d', null], ['e', 1]] AS x CREATE (:N {name: x[0], n: x[1]})
      """

  Scenario: ORDER BY puts null last
    When executing query:
      """
      MATCH (x:N) RETURN x.name AS name ORDER BY x.n, name DESC
      """
    Then the result should be, in order:
      | name |
      | 'e'  |
      | 'b'  |
      | 'c'  |
      | 'a'  |
      | 'd'  |

  Scenario: SKIP and LIMIT with parameters
    And parameters are:
      | skip  | 1 |
      | limit | 2 |
    When executing query:
      """
      MATCH (x:N) RETURN x.name ORDER BY x.name SKIP $skip LIMIT $limit
      """
    Then the result should be, in order:
      | x.name |
      | 'b'    |
      | 'c'    |

  Scenario: LIMIT 0
    When executing query:
      """
      MATCH (x:N) RETURN x.name LIMIT 0
      """
    Then the result should be, in order:
      | x.name |

  Scenario: DISTINCT
    When executing query:
      """
      MATCH (x:N) RETURN DISTINCT x.n AS n ORDER BY n
      """
    Then the result should be, in order:
      | n    |
      | 1    |
      | 2    |
      | 3    |
      | null |

  Scenario: Aggregates group by the other columns
    When executing query:
      """
      MATCH (x:N) RETURN x.n AS n, count(*) AS rows, count(x.n) AS values, collect(x.name) AS names ORDER BY n
      """
    Then the result should be, in order:
      | n    | rows | values | names      |
      | 1    | 2    | 2      | ['b', 'e'] |
      | 2    | 1    | 1      | ['c']      |
      | 3    | 1    | 1      | ['a']      |
      | null | 1    | 0      | ['d']      |

  Scenario: Aggregates ignore null
    When executing query:
      """
      MATCH (x:N) RETURN sum(x.n) AS sum, avg(x.n) AS avg, min(x.n) AS min, max(x.n) AS max, count(DISTINCT x.n) AS n
      """
    Then the result should be, in any order:
      | sum | avg  | min | max | n |
      | 7   | 1.75 | 1   | 3   | 3 |

  Scenario: Aggregates of no rows
    When executing query:
      """
      MATCH (x:Nothing) RETURN count(*) AS n, sum(x.n) AS sum, avg(x.n) AS avg, max(x.n) AS max, collect(x) AS list
      """
    Then the result should be, in any order:
      | n | sum | avg  | max  | list |
      | 0 | 0   | null | null | []   |

  Scenario: Groups of no rows
    When executing query:
      """
      MATCH (x:Nothing) RETURN x.n, count(*)
      """
    Then the result should be, in any order:
      | x.n | count(*) |

  Scenario: WITH selects groups
    When executing query:
      """
      MATCH (x:N) WITH x.n AS n, count(*) AS rows WHERE rows > 1 RETURN n
      """
    Then the result should be, in any order:
      | n |
      | 1 |

  Scenario: WITH orders and limits
    When executing query:
      """
      MATCH (x:N) WITH x ORDER BY x.name DESC LIMIT 2 RETURN x.name ORDER BY x.name
      """
    Then the result should be, in order:
      | x.name |
      | 'd'    |
      | 'e'    |

  Scenario: UNWIND
    When executing query:
      """
      UNWIND [1, null, [2]] AS x UNWIND [x, 0] AS y RETURN y
      """
    Then the result should be, in order:
      | y    |
      | 1    |
      | 0    |
      | null |
      | 0    |
      | [2]  |
      | 0    |

  Scenario: UNWIND of null and of an empty list
    When executing query:
      """
      UNWIND null AS x UNWIND [] AS y RETURN x
      """
    Then the result should be, in order:
      | x |

  Scenario: UNION removes duplicates
    When executing query:
      """
      RETURN 1 AS x UNION RETURN 2 AS x UNION RETURN 1 AS x
      """
    Then the result should be, in any order:
      | x |
      | 1 |
      | 2 |

  Scenario: UNION ALL keeps duplicates
    When executing query:
      """
      RETURN 1 AS x UNION ALL RETURN 1 AS x
      """
    Then the result should be, in any order:
      | x |
      | 1 |
      | 1 |

  Scenario: RETURN * has the variables in order
    When executing query:
      """
      WITH 1 AS b, 2 AS a RETURN *
      """
    Then the result should be, in any order:
      | a | b |
      | 2 | 1 |

  Scenario: ORDER BY an aggregate
    When executing query:
      """
      MATCH (x:N) RETURN x.n AS n ORDER BY count(*) DESC, n LIMIT 1
      """
    Then a SyntaxError should be raised at compile time: InvalidAggregation

  Scenario: ORDER BY an aggregate that is returned
    When executing query:
      """
      MATCH (x:N) RETURN x.n AS n, count(*) AS c ORDER BY count(*) DESC, n LIMIT 2
      """
    Then the result should be, in order:
      | n | c |
      | 1 | 2 |
      | 2 | 1 |
