// Package sqltask has the parts of a store of tasks that are written once for SQLite and PostgreSQL. Backends embed
// its types.
package sqltask
