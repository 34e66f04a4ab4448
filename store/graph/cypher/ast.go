package cypher

// expr is an expression. Its variables have slots once the query was checked.
type expr interface {
	// eval returns the value for a row.
	eval(x *execution, r row) (any, error)
	// each calls f with the operands. f may replace them.
	each(f func(*expr))
}

type leaf struct{}

func (leaf) each(func(*expr)) {}

type (
	literal struct {
		leaf
		value any
	}
	parameter struct {
		leaf
		name string
		pos  int
	}
	variable struct {
		leaf
		name string
		pos  int
		slot int
	}
	property struct {
		of  expr
		key string
		pos int
	}
	element struct {
		of, at expr
		pos    int
	}
	slice struct {
		of, from, to expr // from and to may be nil
		pos          int
	}
	list   struct{ items []expr }
	object struct {
		keys   []string
		values []expr
	}
	not struct {
		of  expr
		pos int
	}
	sign struct {
		of       expr
		negative bool
		pos      int
	}
	// logical is AND, OR or XOR.
	logical struct {
		op          string
		left, right expr
		pos         int
	}
	arithmetic struct {
		op          string // + - * / % ^
		left, right expr
		pos         int
	}
	// comparison is a chain such as a < b <= c.
	comparison struct {
		operands []expr
		ops      []string // = <> < <= > >=
	}
	// stringTest is STARTS WITH, ENDS WITH or CONTAINS.
	stringTest struct {
		op          string
		left, right expr
	}
	inList struct {
		item, list expr
		pos        int
	}
	isNull struct {
		of       expr
		negative bool
	}
	hasLabels struct {
		of     expr
		labels []string
		pos    int
	}
	call struct {
		fn   *function
		name string // in lower case
		args []expr
		pos  int
	}
	aggregate struct {
		name     string // in lower case; "count(*)" has no argument
		arg      expr
		distinct bool
		pos      int
		index    int // into the values of a group
	}
	// caseOf is CASE. Without an operand the conditions are predicates.
	caseOf struct {
		operand    expr // may be nil
		conditions []expr
		results    []expr
		otherwise  expr // may be nil
	}
	comprehension struct {
		item  *variable
		list  expr
		where expr // may be nil
		out   expr // may be nil
	}
	// quantifier is all, any, none or single.
	quantifier struct {
		name  string
		item  *variable
		list  expr
		where expr
		pos   int
	}
	// patternTest is a pattern as a predicate.
	patternTest struct {
		pattern *pattern
		plan    *plan
		pos     int
		// allowed: it is a condition, not a value.
		allowed bool
	}
	patternComprehension struct {
		pattern *pattern
		plan    *plan
		where   expr // may be nil
		out     expr
		pos     int
	}
)

func (e *property) each(f func(*expr)) { f(&e.of) }
func (e *element) each(f func(*expr))  { f(&e.of); f(&e.at) }
func (e *slice) each(f func(*expr)) {
	f(&e.of)
	eachOf(f, &e.from, &e.to)
}
func (e *list) each(f func(*expr))       { eachIn(f, e.items) }
func (e *object) each(f func(*expr))     { eachIn(f, e.values) }
func (e *not) each(f func(*expr))        { f(&e.of) }
func (e *sign) each(f func(*expr))       { f(&e.of) }
func (e *logical) each(f func(*expr))    { f(&e.left); f(&e.right) }
func (e *arithmetic) each(f func(*expr)) { f(&e.left); f(&e.right) }
func (e *comparison) each(f func(*expr)) { eachIn(f, e.operands) }
func (e *stringTest) each(f func(*expr)) { f(&e.left); f(&e.right) }
func (e *inList) each(f func(*expr))     { f(&e.item); f(&e.list) }
func (e *isNull) each(f func(*expr))     { f(&e.of) }
func (e *hasLabels) each(f func(*expr))  { f(&e.of) }
func (e *call) each(f func(*expr))       { eachIn(f, e.args) }
func (e *aggregate) each(f func(*expr))  { eachOf(f, &e.arg) }
func (e *caseOf) each(f func(*expr)) {
	eachOf(f, &e.operand)
	eachIn(f, e.conditions)
	eachIn(f, e.results)
	eachOf(f, &e.otherwise)
}

func (e *comprehension) each(f func(*expr)) {
	f(&e.list)
	eachOf(f, &e.where, &e.out)
}
func (e *quantifier) each(f func(*expr))  { f(&e.list); f(&e.where) }
func (e *patternTest) each(f func(*expr)) { e.pattern.each(f) }
func (e *patternComprehension) each(f func(*expr)) {
	e.pattern.each(f)
	eachOf(f, &e.where, &e.out)
}

func eachIn(f func(*expr), operands []expr) {
	for i := range operands {
		f(&operands[i])
	}
}

// eachOf calls f with the operands that exist.
func eachOf(f func(*expr), operands ...*expr) {
	for _, o := range operands {
		if *o != nil {
			f(o)
		}
	}
}

// direction of a relationship, as the pattern is written.
type direction int

const (
	both direction = iota
	right
	left
)

func (d direction) reversed() direction {
	switch d {
	case right:
		return left
	case left:
		return right
	default:
		return both
	}
}

// nodePattern is (variable:Label {key: value}).
type nodePattern struct {
	variable *variable // nil without a name
	labels   []string
	props    expr // an object or a parameter, nil without properties
	pos      int
	slot     int
}

// relPattern is -[variable:TYPE|TYPE *min..max {key: value}]->.
type relPattern struct {
	variable *variable // nil without a name
	types    []string
	props    expr
	dir      direction
	length   *length // nil for one relationship
	pos      int
	slot     int
	// bound: the variable has a value before the pattern is matched.
	bound bool
}

// length of a path of several relationships. max is -1 without a bound.
type length struct{ min, max int }

// pattern is a path: nodes[0] rels[0] nodes[1] ...
type pattern struct {
	variable *variable // of the path, nil without a name
	nodes    []*nodePattern
	rels     []*relPattern
	slot     int
}

func (p *pattern) each(f func(*expr)) {
	for _, n := range p.nodes {
		eachOf(f, &n.props)
	}
	for _, r := range p.rels {
		eachOf(f, &r.props)
	}
}

// clause is a part of a query.
type clause interface {
	// check resolves the names of the clause in s and adds those that it defines.
	check(c *checker, s *scope) (*scope, error)
	// operator returns what executes the clause and passes its rows to next.
	operator(x *execution, next operator) operator
}

type match struct {
	optional bool
	patterns []*pattern
	where    expr // may be nil
	plan     *plan
	pos      int
}

type unwind struct {
	list expr
	as   *variable
}

// item is one column of a projection.
type item struct {
	expr expr
	name string
	// source is the text of the expression.
	source string
	named  bool
	pos    int
	slot   int
}

type sortItem struct {
	expr       expr
	descending bool
}

// projection is WITH or RETURN.
type projection struct {
	with        bool
	distinct    bool
	all         bool // *
	items       []*item
	order       []sortItem
	skip, limit expr
	where       expr
	pos         int

	aggregates []*aggregate
	grouping   bool // has aggregates
	width      int  // of rows with the values of the items
	outWidth   int
}

// single is a query without UNION.
type single struct {
	clauses []clause
	columns []string
}
