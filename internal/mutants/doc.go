// Package mutants proves that the tests of the engine and of the server notice defects: each mutant is the product's code with
// one defect, and a test that is named with it must fail.
//
// The package has tests only. TestMutantsMatchTheCode, part of every run, checks that each defect still has its place in the code.
// TestMutantsAreCaught (build tag "mutants", make mutants) builds one defect at a time and runs the tests that are to notice it.
package mutants
