package suite_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// group is a part of the requirements that one agent meets.
type group struct {
	profile string
	change  func(*holdfast.Config) // of the settings of the profile, or nil
	codec   v10.Codec
	// bindings are the bindings over which the requirements are tested. Empty means each
	// binding. Requirements of all bindings together are tested once.
	bindings []string
	rows     []row
}

const (
	overJSONRPC = "JSON-RPC"
	overREST    = "HTTP+JSON"
	together    = "all bindings"
)

// groupsV10 are the requirements of A2A 1.0 that this suite proves.
func groupsV10() []group {
	legacy := v10.Codec{Errors100: true}
	return []group{
		{profile: "v10", codec: legacy, rows: requirementsV10},
		{profile: "v10-off", codec: legacy, rows: requirementsWithoutCapabilities},
		{profile: "v10-ext", rows: []row{{"CORE-CAP-004", testRequiredExtension}}},
		{profile: "v10-ext", bindings: []string{overJSONRPC}, rows: []row{{"JSONRPC-SVC-002", testServiceParameters}}},
		{profile: "v10-ext", bindings: []string{overREST}, rows: []row{{"HTTP_JSON-SVC-002", testServiceParameters}}},
		{profile: "v10", codec: legacy, bindings: []string{overJSONRPC}, rows: requirementsOfJSONRPC},
		{profile: "v10", codec: legacy, bindings: []string{overREST}, rows: requirementsOfREST},
		{profile: "v10", codec: legacy, bindings: []string{together}, rows: requirementsOfCards},
		{profile: "v10", codec: legacy, bindings: []string{together}, change: signCards, rows: requirementsOfSignatures},
		{profile: "acts", rows: []row{{"CORE-SEND-003", testMediaTypes}}},
		{profile: "v10", codec: legacy, change: withoutExtendedCard, rows: []row{{"CARD-EXT-002", testNoExtendedCard}}},
		{profile: "acts-auth", rows: requirementsOfAuthorization},
		{profile: "acts-auth", bindings: []string{together}, rows: requirementsOfBindings},
	}
}

// Each requirement is a subtest with its name.
func TestRequirementsOfV10(t *testing.T) {
	t.Parallel()
	for _, g := range groupsV10() {
		url := startAgent(t, g.profile, g.change)
		bindings := g.bindings
		if len(bindings) == 0 {
			bindings = []string{overJSONRPC, overREST}
		}
		for _, binding := range bindings {
			c := newConn(t, url, g.codec, binding == overREST)
			for _, r := range g.rows {
				for id := range strings.FieldsSeq(r.ids) {
					t.Run(binding+"/"+id, func(t *testing.T) {
						t.Parallel()
						r.test(c.on(t))
					})
				}
			}
		}
	}
}

// kitV10 are the requirements of the kit for A2A 1.0.
const kitV10 = `
CARD-DISC-001 CARD-PROTO-001 CARD-PROTO-002 CARD-STRUCT-001 CARD-EXT-001 CARD-EXT-002 CARD-SIGN-001 CARD-SIGN-002 CARD-SIGN-003 CARD-SIGN-004
CARD-CACHE-001 CARD-CACHE-002 CARD-CACHE-003
AUTH-TLS-001 AUTH-TLS-002 AUTH-SERVER-001 AUTH-SERVER-002 AUTH-INTASK-001 AUTH-INTASK-002 AUTH-INTASK-003 AUTH-INTASK-004 AUTH-INTASK-005
AUTH-INTASK-006 AUTH-SCOPE-001 AUTH-SCOPE-002 AUTH-SCOPE-003
GRPC-SVC-001 GRPC-SVC-002 GRPC-SVC-003 GRPC-META-001 GRPC-ERR-001 GRPC-ERR-002 GRPC-ERR-003
HTTP_JSON-URL-001 HTTP_JSON-URL-002 HTTP_JSON-SVC-001 HTTP_JSON-SVC-002 HTTP_JSON-QP-001 HTTP_JSON-ERR-001 HTTP_JSON-ERR-002 HTTP_JSON-STATUS-001
HTTP_JSON-SSE-001
JSONRPC-FMT-001 JSONRPC-FMT-002 JSONRPC-SVC-001 JSONRPC-SVC-002 JSONRPC-ERR-001 JSONRPC-ERR-002 JSONRPC-ERR-003 JSONRPC-SSE-001 JSONRPC-SSE-002
CORE-SEND-001 CORE-SEND-002 CORE-SEND-003 CORE-STREAM-001 CORE-STREAM-002 CORE-STREAM-003 CORE-GET-001 CORE-GET-002 CORE-LIST-001 CORE-LIST-002
CORE-LIST-003 CORE-LIST-004 CORE-LIST-005 CORE-CANCEL-001 CORE-CANCEL-002 CORE-CANCEL-003 CORE-EXECUTION-MODE-001 CORE-EXECUTION-MODE-002 CORE-ERR-001
CORE-ERR-002 CORE-CAP-001 CORE-CAP-002 CORE-CAP-003 CORE-CAP-004 CORE-MULTI-001 CORE-MULTI-001a CORE-MULTI-002 CORE-MULTI-002a CORE-MULTI-003
CORE-MULTI-004 CORE-MULTI-005 CORE-MULTI-006 CORE-HIST-001 CORE-HIST-002 CORE-HIST-003 CORE-HIST-004 CORE-HIST-005 CORE-HIST-006
DM-TASK-001 DM-TASK-002 DM-MSG-001 DM-MSG-002 DM-PART-001 DM-ART-001 DM-STATUS-001 DM-SERIAL-001 DM-SERIAL-002 DM-SERIAL-003 DM-SERIAL-004
DM-SERIAL-005
BIND-EQUIV-001 BIND-EQUIV-002 BIND-EQUIV-003 BIND-EQUIV-004 BIND-FIELD-001
PUSH-CREATE-001 PUSH-CREATE-002 PUSH-GET-001 PUSH-GET-002 PUSH-LIST-001 PUSH-DEL-001 PUSH-DEL-002 PUSH-DELIVER-001 PUSH-DELIVER-002 PUSH-DELIVER-003
STREAM-ORDER-001 STREAM-ORDER-002 STREAM-ORDER-003 STREAM-ORDER-004 STREAM-SUB-001 STREAM-SUB-002 STREAM-SUB-003 STREAM-SUB-004
VER-CLIENT-001 VER-SERVER-001 VER-SERVER-002 VER-SERVER-003 VER-CLIENT-002`

// elsewhere are the requirements that no test of this suite can prove, with the place that does, or
// the reason why none does.
var elsewhere = map[string]string{
	"AUTH-TLS-001":    "A property of a deployment; docs/operations.md explains TLS.",
	"AUTH-TLS-002":    "A property of a deployment.",
	"AUTH-SERVER-001": "A duty of clients: those of Go verify certificates.",
	"AUTH-INTASK-004": "The agent decides how it receives credentials.",
	"VER-CLIENT-001":  "A duty of clients: TestTenantIsSentOverBothTransports in client.",
	"GRPC-SVC-001":    "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-SVC-002":    "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-ERR-001":    "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-ERR-002":    "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-ERR-003":    "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-META-001":   "TestRequirementsOfGRPC in server/grpc.",
	"GRPC-SVC-003":    "TestRequirementsOfGRPC in server/grpc.",
}

func TestEveryRequirementOfTheKitIsNamedOnce(t *testing.T) {
	t.Parallel()
	known := strings.Fields(kitV10)
	named := make(map[string]bool)
	name := func(id string) {
		if !slices.Contains(known, id) {
			t.Errorf("%s is not a requirement of the kit", id)
		}
		if named[id] {
			t.Errorf("%s is named twice", id)
		}
		named[id] = true
	}
	for _, g := range groupsV10() {
		for _, r := range g.rows {
			for id := range strings.FieldsSeq(r.ids) {
				name(id)
			}
		}
	}
	for id := range elsewhere {
		name(id)
	}
	for _, id := range known {
		if !named[id] {
			t.Errorf("no test names %s", id)
		}
	}
	if got := len(named) - len(elsewhere); len(known) != 129 || got != 117 {
		t.Errorf("%d of %d requirements have a test here, want 117 of 129, as docs/conformance.md says", got, len(known))
	}
}
