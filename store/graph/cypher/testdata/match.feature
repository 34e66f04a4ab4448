Feature: Patterns

  Background:
    Given an empty graph
    And having executed:
      """
      CREATE (ada:Person {name: 'Ada', age: 36}), (bob:Person {name: 'Bob', age: 41}), (cy:Person {name: 'Cy'}),
             (core:Project {name: 'core'}), (site:Project {name: 'site'}),
             (ada)-[:KNOWS {since: 2001}]->(bob), (bob)-[:KNOWS {since: 2010}]->(cy), (cy)-[:KNOWS {since: 2015}]->(ada),
             (ada)-[:WORKS_ON]->(core), (bob)-[:WORKS_ON]->(core), (bob)-[:WORKS_ON]->(site), (cy)-[:LIKES]->(cy)
      """

  Scenario: Entities have a label
    When executing query:
      """
      MATCH (p:Project) RETURN p
      """
    Then the result should be, in any order:
      | p                         |
      | (:Project {name: 'core'}) |
      | (:Project {name: 'site'}) |

  Scenario: Two labels exclude entities with one
    When executing query:
      """
      MATCH (p:Project:Person) RETURN p
      """
    Then the result should be, in any order:
      | p |

  Scenario: Properties select
    When executing query:
      """
      MATCH (p {name: 'Bob', age: 41}) RETURN p.age
      """
    Then the result should be, in any order:
      | p.age |
      | 41    |

  Scenario: A property that is null selects nothing
    When executing query:
      """
      MATCH (p:Person {age: null}) RETURN p
      """
    Then the result should be, in any order:
      | p |

  Scenario Outline: Directions
    When executing query:
      """
      MATCH (:Person {name: 'Ada'})<pattern>(p:Person) RETURN p.name AS name
      """
    Then the result should be, in any order:
      | name   |
      | <name> |

    Examples:
      | pattern                 | name  |
      | -[:KNOWS]->             | 'Bob' |
      | <-[:KNOWS]-             | 'Cy'  |
      | -[:KNOWS {since: 2001}]- | 'Bob' |

  Scenario: Relationships of several types
    When executing query:
      """
      MATCH (:Person {name: 'Bob'})-[r:KNOWS|WORKS_ON]->(x) RETURN type(r) AS type, x.name AS name ORDER BY name
      """
    Then the result should be, in order:
      | type       | name   |
      | 'KNOWS'    | 'Cy'   |
      | 'WORKS_ON' | 'core' |
      | 'WORKS_ON' | 'site' |

  Scenario: A relationship occurs once in a match
    When executing query:
      """
      MATCH (a)-[:WORKS_ON]->(p)<-[:WORKS_ON]-(b) RETURN a.name AS a, p.name AS p, b.name AS b
      """
    Then the result should be, in any order:
      | a     | p      | b     |
      | 'Ada' | 'core' | 'Bob' |
      | 'Bob' | 'core' | 'Ada' |

  Scenario: A relationship to the entity itself occurs once
    When executing query:
      """
      MATCH (a)-[r:LIKES]-(b) RETURN a.name, b.name
      """
    Then the result should be, in any order:
      | a.name | b.name |
      | 'Cy'   | 'Cy'   |

  Scenario: A cycle ends
    When executing query:
      """
      MATCH (:Person {name: 'Ada'})-[r:KNOWS*]->(p) RETURN p.name AS name, size(r) AS hops
      """
    Then the result should be, in any order:
      | name  | hops |
      | 'Bob' | 1    |
      | 'Cy'  | 2    |
      | 'Ada' | 3    |

  Scenario Outline: Bounds of a length
    When executing query:
      """
      MATCH (:Person {name: 'Ada'})-[:KNOWS<length>]->(p) RETURN collect(p.name) AS names
      """
    Then the result should be (ignoring element order for lists):
      | names   |
      | <names> |

    Examples:
      | length | names                |
      | *0     | ['Ada']              |
      | *2     | ['Cy']               |
      | *..2   | ['Bob', 'Cy']        |
      | *0..1  | ['Ada', 'Bob']       |
      | *2..   | ['Cy', 'Ada']        |
      | *5..   | []                   |

  Scenario: A path has a name
    When executing query:
      """
      MATCH p = (:Person {name: 'Ada'})-[:KNOWS*2]->() RETURN length(p) AS length, [n IN nodes(p) | n.name] AS names
      """
    Then the result should be, in any order:
      | length | names                |
      | 2      | ['Ada', 'Bob', 'Cy'] |

  Scenario: Several patterns share variables
    When executing query:
      """
      MATCH (a)-[:KNOWS]->(b), (b)-[:KNOWS]->(c), (c)-[:KNOWS]->(a) WHERE a.name = 'Bob' RETURN c.name
      """
    Then the result should be, in any order:
      | c.name |
      | 'Ada'  |

  Scenario: Properties may refer to other entities
    When executing query:
      """
      MATCH (a:Person {name: b.name}), (b:Person {age: 41}) RETURN a.age
      """
    Then the result should be, in any order:
      | a.age |
      | 41    |

  Scenario: OPTIONAL MATCH returns null
    When executing query:
      """
      MATCH (p:Person) OPTIONAL MATCH (p)-[:WORKS_ON]->(w:Project) RETURN p.name AS p, w.name AS w
      """
    Then the result should be, in any order:
      | p     | w      |
      | 'Ada' | 'core' |
      | 'Bob' | 'core' |
      | 'Bob' | 'site' |
      | 'Cy'  | null   |

  Scenario: A condition belongs to OPTIONAL MATCH
    When executing query:
      """
      MATCH (p:Person) OPTIONAL MATCH (p)-[:WORKS_ON]->(w) WHERE w.name = 'site' RETURN p.name AS p, w.name AS w
      """
    Then the result should be, in any order:
      | p     | w      |
      | 'Ada' | null   |
      | 'Bob' | 'site' |
      | 'Cy'  | null   |

  Scenario: A pattern from null matches nothing
    When executing query:
      """
      OPTIONAL MATCH (x:Nothing) MATCH (x)-->(y) RETURN y
      """
    Then the result should be, in any order:
      | y |

  Scenario: Patterns are conditions
    When executing query:
      """
      MATCH (p:Person) WHERE NOT (p)-[:WORKS_ON]->() OR exists((p)-[:WORKS_ON]->({name: 'site'})) RETURN p.name AS name ORDER BY name
      """
    Then the result should be, in order:
      | name  |
      | 'Bob' |
      | 'Cy'  |

  Scenario: Labels are conditions
    When executing query:
      """
      MATCH (x)<-[:WORKS_ON]-(p) WHERE x:Project AND p:Person AND NOT x:Person RETURN count(*) AS n
      """
    Then the result should be, in any order:
      | n |
      | 3 |

  Scenario: Pattern comprehensions
    When executing query:
      """
      MATCH (p:Person {name: 'Bob'}) RETURN [(p)-[:WORKS_ON]->(w) WHERE w.name <> 'core' | w.name] AS names
      """
    Then the result should be, in any order:
      | names    |
      | ['site'] |
