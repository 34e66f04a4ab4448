Feature: Expressions

  Scenario Outline: Values
    When executing query:
      """
      RETURN <expression> AS value
      """
    Then the result should be, in any order:
      | value   |
      | <value> |

    Examples:
      | expression                                       | value          |
      | 7 / 2                                            | 3              |
      | -7 / 2                                           | -3             |
      | 7 / 2.0                                          | 3.5            |
      | -7 % 3                                           | -1             |
      | 2 ^ 3 ^ 2                                        | 64.0           |
      | 2 + 3 * 4                                        | 14             |
      | 1 + 2.5                                          | 3.5            |
      | 'a' + 1                                          | 'a1'           |
      | [1] + 2                                          | [1, 2]         |
      | 0x1F                                             | 31             |
      | -9223372036854775808                             | -9223372036854775808 |
      | 1e3                                              | 1000.0         |
      | 1 = 1.0                                          | true           |
      | 1 = '1'                                          | false          |
      | 1 < 'a'                                          | null           |
      | 1 < 2 < 3                                        | true           |
      | null = null                                      | null           |
      | null <> 1                                        | null           |
      | null IS NULL                                     | true           |
      | 1 IS NOT NULL                                    | true           |
      | null AND false                                   | false          |
      | null AND true                                    | null           |
      | null OR true                                     | true           |
      | null OR false                                    | null           |
      | null XOR true                                    | null           |
      | NOT null                                         | null           |
      | true XOR true                                    | false          |
      | 1 IN [1, 2]                                      | true           |
      | 1 IN [2, null]                                   | null           |
      | null IN []                                       | false          |
      | null IN [1]                                      | null           |
      | [1, null] = [1, null]                            | null           |
      | [1, null] = [2, null]                            | false          |
      | {a: 1} = {a: 1.0}                                | true           |
      | 'abc' STARTS WITH 'ab'                           | true           |
      | 'abc' ENDS WITH 'ab'                             | false          |
      | 'abc' CONTAINS 'b'                               | true           |
      | 'abc' CONTAINS null                              | null           |
      | 1 CONTAINS 'b'                                   | null           |
      | [1, 2, 3][0]                                     | 1              |
      | [1, 2, 3][-1]                                    | 3              |
      | [1, 2, 3][3]                                     | null           |
      | [1, 2, 3][1..]                                   | [2, 3]         |
      | [1, 2, 3][..-1]                                  | [1, 2]         |
      | {a: {b: 2}}.a.b                                  | 2              |
      | {a: 1}['a']                                      | 1              |
      | {a: 1}.x                                         | null           |
      | null.x                                           | null           |
      | CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END            | 'b'            |
      | CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END       | 'b'            |
      | CASE null WHEN null THEN 1 END                   | null           |
      | [x IN range(1, 5) WHERE x % 2 = 1 \| x * x]      | [1, 9, 25]     |
      | [x IN [1, 2] \| [y IN [x] \| x + y]]             | [[2], [4]]     |
      | all(x IN [1, 2] WHERE x > 0)                     | true           |
      | any(x IN [1, null] WHERE x > 1)                  | null           |
      | none(x IN [] WHERE x > 1)                        | true           |
      | single(x IN [1, 2, 3] WHERE x > 2)               | true           |
      | coalesce(null, 2, 3)                             | 2              |
      | size('héé')                                      | 3              |
      | size([1, 2])                                     | 2              |
      | head([1, 2])                                     | 1              |
      | last([])                                         | null           |
      | tail([1, 2])                                     | [2]            |
      | reverse('abc')                                   | 'cba'          |
      | range(3, 1, -1)                                  | [3, 2, 1]      |
      | keys({b: 1, a: 2})                               | ['a', 'b']     |
      | toString(1.0)                                    | '1.0'          |
      | toInteger('12.7')                                | 12             |
      | toInteger('x')                                   | null           |
      | toFloat('1.5')                                   | 1.5            |
      | toBoolean('True')                                | true           |
      | toUpper('abc')                                   | 'ABC'          |
      | trim('  a ')                                     | 'a'            |
      | left('abc', 2)                                   | 'ab'           |
      | substring('abcdef', 2, 3)                        | 'cde'          |
      | replace('aXbX', 'X', '--')                       | 'a--b--'       |
      | split('a,b', ',')                                | ['a', 'b']     |
      | abs(-3)                                          | 3              |
      | sign(-2.5)                                       | -1             |
      | ceil(1.2)                                        | 2.0            |
      | round(2.5)                                       | 3.0            |
      | 'it\'s \u00e9'                                   | 'it\'s é'      |

  Scenario Outline: Invalid values
    When executing query:
      """
      RETURN <expression> AS value
      """
    Then a TypeError should be raised at any time: *

    Examples:
      | expression                  |
      | 1 / 0                       |
      | 1 % 0                       |
      | 9223372036854775807 + 1     |
      | -9223372036854775808 - 1    |
      | 9223372036854775807 * 2     |
      | 9223372036854775808         |
      | 1 AND true                  |
      | NOT 'a'                     |
      | 'a' - 1                     |
      | true + 1                    |
      | 1 IN 2                      |
      | [1]['a']                    |
      | [1][true]                   |
      | 1[0]                        |
      | 1.x                         |
      | toUpper(1)                  |
      | size(1)                     |
      | range(1, 2, 0)              |
      | left('a', -1)               |
      | sum('a')                    |
      | $missing                    |
      | [x IN 1 \| x]               |
      | all(x IN [1] WHERE x)       |
