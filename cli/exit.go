package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// Exit codes without an [a2a.Code].
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 4
	exitFailed      = 20
	exitRejected    = 21
	exitCanceled    = 22
	exitInput       = 23
	exitOtherPause  = 24
	exitInterrupted = 130
)

// exitRow explains an exit code.
type exitRow struct {
	code    int
	meaning string
	// states and codes are the task states and error codes with this exit code.
	states []a2a.TaskState
	codes  []a2a.Code
}

// exitTable lists all exit codes. A test checks that it agrees with [a2a.Code.ExitCode].
var exitTable = []exitRow{
	{code: exitOK, meaning: "success; for a task: completed, or accepted with --no-wait", states: []a2a.TaskState{a2a.StateCompleted}},
	{code: exitFailure, meaning: "local error, such as a file that cannot be read or a database that cannot be used"},
	{code: exitUsage, meaning: "the command line or a setting is not valid"},
	{code: 3, meaning: "the request is not valid or too large", codes: []a2a.Code{
		a2a.CodeParse, a2a.CodeInvalidRequest, a2a.CodeMethodNotFound, a2a.CodeInvalid, a2a.CodeContentType, a2a.CodeTooLarge,
	}},
	{code: exitNotFound, meaning: "not found, or of another owner: a task, context, webhook, blob, fact, session or board", codes: []a2a.Code{a2a.CodeTaskNotFound, a2a.CodeContextNotFound, a2a.CodePushConfigNotFound, a2a.CodeNotFound}},
	{code: 5, meaning: "rejected: not possible in this state, or not supported by this agent", codes: []a2a.Code{
		a2a.CodeTaskNotCancelable, a2a.CodeContextNotCancelable, a2a.CodePushNotSupported, a2a.CodeUnsupported, a2a.CodeNoExtendedCard, a2a.CodeConflict,
	}},
	{code: 6, meaning: "the token is missing, not valid or not permitted to do this", codes: []a2a.Code{a2a.CodeUnauthenticated, a2a.CodeCredentialsExpired, a2a.CodeInvalidSignature, a2a.CodeDenied}},
	{code: 7, meaning: "no server answers, a limit is exceeded, or the address or data is in use", codes: []a2a.Code{
		a2a.CodeExhausted, a2a.CodeUnavailable,
	}},
	{code: 10, meaning: "internal error of the server, or not an A2A server", codes: []a2a.Code{a2a.CodeInternal, a2a.CodeInvalidAgentResponse}},
	{code: exitFailed, meaning: "the task failed", states: []a2a.TaskState{a2a.StateFailed}},
	{code: exitRejected, meaning: "the agent rejected the task", states: []a2a.TaskState{a2a.StateRejected}},
	{code: exitCanceled, meaning: "the task was canceled", states: []a2a.TaskState{a2a.StateCanceled}},
	{code: exitInput, meaning: "the agent asks for input: answer with send --task", states: []a2a.TaskState{a2a.StateInputRequired}},
	{code: exitOtherPause, meaning: "the task waits for something other than input", states: []a2a.TaskState{
		a2a.StateAuthRequired, a2a.StatePaymentRequired, a2a.StateTrustVerificationRequired, a2a.StateSuspended,
	}},
	{code: exitInterrupted, meaning: "interrupted by a signal"},
}

// exitOfState returns the exit code of a command that waited for a task.
func exitOfState(s a2a.TaskState) int {
	for _, row := range exitTable {
		if slices.Contains(row.states, s) {
			return row.code
		}
	}
	return exitOK
}

// exitTableText returns the table as text.
func exitTableText() string {
	var b strings.Builder
	for _, row := range exitTable {
		fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.meaning)
		line := "       ("
		for i, c := range row.codes {
			if len(line)+len(c) > 76 {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
				line = "        "
			}
			if line += string(c) + ", "; i == len(row.codes)-1 {
				b.WriteString(strings.TrimSuffix(line, ", ") + ")\n")
			}
		}
	}
	return b.String()
}

// exitStatus is an exit code of a command that has already reported its result.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// localError is an error of this process, such as a store that it cannot open. No server has failed.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// local returns err, as a local error if it would be an internal one of a server.
func local(err error) error {
	if err != nil && a2a.CodeOf(err) == a2a.CodeInternal {
		return &localError{err}
	}
	return err
}

// codeName returns the code of err for the JSON output.
func codeName(err error) string {
	var usage *command.UsageError
	var missing *command.NotFoundError
	var coded *a2a.Error
	switch {
	case errors.Is(err, errInterrupted):
		return "interrupted"
	case errors.As(err, &missing):
		return "not_found"
	case errors.As(err, &usage):
		return "usage"
	case errors.As(err, &coded):
		return string(coded.Code)
	}
	return "failure"
}

func exitOf(err error) int {
	var status exitStatus
	var usage *command.UsageError
	var inside *localError
	var missing *command.NotFoundError
	var coded *a2a.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &missing):
		return exitNotFound
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &inside):
		return exitFailure
	case errors.As(err, &coded):
		return coded.Code.ExitCode()
	}
	return exitFailure
}
