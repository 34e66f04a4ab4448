package auth_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// role returns a role in JSON. more are further members.
func role(name string, level a2a.TrustLevel, permissions string, more ...string) string {
	members := append([]string{
		`"roleId":"3f1b8f9e-2c53-4f29-9d0e-0d6a7a3b1c11"`, fmt.Sprintf(`"roleName":%q`, name), `"permissions":[` + permissions + `]`,
		fmt.Sprintf(`"trustLevel":%q`, level), `"realmName":"agents"`,
	}, more...)
	return "{" + strings.Join(members, ",") + "}"
}

func parseRoles(t testing.TB, text string, providers map[string]a2a.IdentityProvider) *auth.Roles {
	t.Helper()
	r, err := auth.ParseRoles([]byte(text), providers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// trust returns an AgentTrust object in JSON.
func trust(required bool, allowed string, inherited ...string) string {
	return fmt.Sprintf(`{"identityProvider":"keycloak","inheritedRoles":[%s],"creatorId":"creator","creationTimestamp":1,"trustVerificationRequired":%t,"allowedOperations":{%s}}`, strings.Join(inherited, ","), required, allowed)
}

func TestRolesFilesAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:  "roles",
		`{}`: "roles",
		`{"roles":[` + role("a", "admin", "") + "," + role("a", "admin", "") + `]}`:                            `two roles have the name "a"`,
		`{"roles":[` + role("a", "root", "") + `]}`:                                                            "trustLevel",
		`{"roles":[` + role("a", "admin", "", `"operationPermissions":{"message/sned":"admin"}`) + `]}`:        `there is no operation "message/sned"`,
		`{"roles":[],"trust":` + trust(false, `"tasks":"admin"`) + `}`:                                         `there is no operation "tasks"`,
		`{"roles":[],"members":{"x":["a"]}}`:                                                                   `member "x" has the role "a", which does not exist`,
		`{"roles":[` + role("a", "admin", "") + `],"trust":` + trust(false, "", role("a", "viewer", "")) + `}`: `two roles have the name "a"`,
		`{"roles":[],"unknown":1}`:                                                                             "unknown",
		`{"roles":[` + strings.Replace(role("a", "admin", ""), "3f1b8f9e", "x", 1) + `]}`:                      "roleId",
	} {
		if _, err := auth.ParseRoles([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRoles(%s) = %v, want %s", text, err, want)
		}
	}
}

func TestRolesDetermineLevelAndPermissions(t *testing.T) {
	t.Parallel()
	roles := parseRoles(t, `{"roles":[`+strings.Join([]string{
		role("reader", "viewer", `"tasks.*"`), role("writer", "analyst", `"messages.send"`), role("boss", "admin", "", `"externalMappings":{"azure_ad":"Boss.All"}`),
	}, ",")+`],"members":{"did:key:z1":["writer"]},"trust":`+trust(false, "", role("owner", "manager", ""))+`}`, map[string]a2a.IdentityProvider{"entra": "azure_ad", "kc": "keycloak"})
	list := map[string]a2a.Principal{
		"none": {ID: "none"}, "reader": {ID: "r", Roles: []string{"reader"}}, "both": {ID: "b", Roles: []string{"writer", "reader"}},
		"substring": {ID: "s", Roles: []string{"read", "readers", "READER", ""}}, "member": {ID: "did:key:z1"}, "creator": {ID: "creator"},
		"mapped": {ID: "m", Roles: []string{"Boss.All"}, Issuer: "entra"}, "unmapped": {ID: "u", Roles: []string{"boss"}, Issuer: "entra"},
		"other": {ID: "o", Roles: []string{"Boss.All"}, Issuer: "kc"}, "plain": {ID: "p", Roles: []string{"boss"}, Issuer: "kc"},
	}
	a, err := auth.New(auth.Config{Schemes: []auth.Scheme{tokens(t, list)}, Roles: roles, Records: inmem.New()})
	if err != nil {
		t.Fatal(err)
	}
	type grant struct {
		Level       a2a.TrustLevel
		Roles       []string
		Permissions []string
	}
	for token, want := range map[string]grant{
		"none": {"guest", nil, []string{}}, "reader": {"viewer", []string{"reader"}, []string{"tasks.*"}},
		"both":      {"analyst", []string{"reader", "writer"}, []string{"tasks.*", "messages.send"}},
		"substring": {"guest", nil, []string{}}, "member": {"analyst", []string{"writer"}, []string{"messages.send"}}, "creator": {"manager", []string{"owner"}, nil},
		"mapped": {"admin", []string{"boss"}, nil}, "unmapped": {"guest", nil, []string{}}, "other": {"guest", nil, []string{}}, "plain": {"admin", []string{"boss"}, nil},
	} {
		p, err := a.Authenticate(&http.Request{Header: bearer(token)})
		if diff := cmp.Diff(want, grant{p.Level, p.Roles, p.Permissions}); err != nil || diff != "" {
			t.Errorf("Authenticate(%s) = %v (-want +got):\n%s", token, err, diff)
		}
	}
}

func TestDenialsNameOperationRequiredAndActual(t *testing.T) {
	t.Parallel()
	roles := parseRoles(t, `{"roles":[`+strings.Join([]string{
		role("viewer", "viewer", ""), role("analyst", "analyst", `"messages.send","tasks.get"`), role("editor", "editor", "", `"operationPermissions":{"tasks/cancel":"admin"}`),
	}, ",")+`]}`, nil)
	s := inmem.New()
	g := start(t, auth.Config{Schemes: []auth.Scheme{tokens(t, map[string]a2a.Principal{
		"guest": {ID: "g"}, "viewer": {ID: "v", Roles: []string{"viewer"}}, "analyst": {ID: "a", Roles: []string{"analyst"}}, "editor": {ID: "e", Roles: []string{"editor"}},
		"reader": {ID: "r", Roles: []string{"editor"}, Scopes: []a2a.Scope{a2a.ScopeRead}},
	})}, Roles: roles}, s)
	for _, tt := range []struct{ token, body, reason, operation, required, actual string }{
		{"guest", request("tasks/list", "{}"), "trust", "tasks/list", "viewer", "guest"},
		{"viewer", sendBody(), "trust", "message/send", "analyst", "viewer"},
		{"viewer", sendBody(`"metadata":{"trustLevel":"admin"}`), "trust", "message/send", "analyst", "viewer"}, // attack 21
		{"analyst", request("tasks/list", "{}"), "permission", "tasks/list", "tasks.list", "[messages.send tasks.get]"},
		{"analyst", request("contexts/clear", `{"contextId":"x"}`), "trust", "contexts/clear", "editor", "analyst"},
		{"editor", request("tasks/cancel", `{"id":"x"}`), "trust", "tasks/cancel", "admin", "editor"},
		{"reader", sendBody(), "scope", "message/send", "agent:write", "[agent:read]"},
	} {
		got := g.do("POST", "/", tt.body, bearer(tt.token))
		if got.Error == nil || got.status != 403 || got.Error.Code != -32013 ||
			fmt.Sprint(got.Error.Data["reason"], got.Error.Data["operation"], got.Error.Data["required"], got.Error.Data["actual"]) != fmt.Sprint(any(tt.reason), any(tt.operation), any(tt.required), any(tt.actual)) {
			t.Errorf("%s: HTTP %d %s, want %+v", tt.token, got.status, got.body, tt)
		}
		if !strings.Contains(g.log.String(), "outcome=denied reason="+tt.reason) {
			t.Errorf("%s: the log has no entry for the reason %s:\n%s", tt.token, tt.reason, g.log)
		}
	}
	if p := g.send(bearer("analyst")).sender(t); p.Level != a2a.TrustAnalyst {
		t.Errorf("the sender is %+v, want an analyst", p)
	}
	batch := g.do("POST", "/", "["+request("tasks/list", "{}")+","+sendBody()+"]", bearer("viewer")) // attack 23
	if batch.status != 200 || !strings.Contains(batch.body, `"tasks":[]`) || strings.Count(batch.body, "-32013") != 1 {
		t.Errorf("a batch of an allowed and a denied call = HTTP %d %s", batch.status, batch.body)
	}
}

func TestInheritedRolesRaiseLevelsToo(t *testing.T) {
	t.Parallel()
	roles := parseRoles(t, `{"roles":[],"trust":`+trust(false, "", role("owner", "manager", "", `"operationPermissions":{"tasks/list":"admin"}`))+`}`, nil)
	g := start(t, auth.Config{Schemes: []auth.Scheme{tokens(t, map[string]a2a.Principal{"c": {ID: "creator"}})}, Roles: roles}, inmem.New())
	if got := g.do("POST", "/", request("tasks/list", "{}"), bearer("c")); got.reason() != "403 -32013 trust" {
		t.Errorf("tasks/list = %s (%s), want 403: the inherited role requires an admin", got.reason(), got.body)
	}
	if got := g.send(bearer("c")); got.status != 200 {
		t.Errorf("message/send = HTTP %d %s, want 200", got.status, got.body)
	}
}

func TestTasksWaitForProofOfIdentity(t *testing.T) {
	t.Parallel()
	alice, c, s := newSigner(t, 1), newClock(), inmem.New()
	roles := parseRoles(t, `{"roles":[`+role("analyst", "analyst", "")+`],"trust":`+trust(true, "")+`}`, nil)
	list := tokens(t, map[string]a2a.Principal{"alice": {ID: alice.did, Roles: []string{"analyst"}}})
	g := start(t, auth.Config{
		Schemes: []auth.Scheme{list}, DIDs: dids(t, s, false, c.now()), Roles: roles, Now: c.now, Require: []map[string][]string{{"bearer": {}}, {"bearer": {}, "did": {}}},
	}, s)
	first := g.send(bearer("alice"))
	if first.Result.Status.State != "trust-verification-required" || !strings.Contains(first.body, "Prove your identity") {
		t.Fatalf("message/send without proof = HTTP %d %s, want trust-verification-required", first.status, first.body)
	}
	if got := g.do("POST", "/", request("tasks/get", `{"id":"`+first.Result.ID+`"}`), bearer("alice")); got.reason() != "403 -32013 trust" {
		t.Errorf("tasks/get without proof = %s (%s), want 403 trust", got.reason(), got.body)
	}
	body := sendBody(fmt.Sprintf(`"taskId":%q`, first.Result.ID))
	h := alice.sign(t, body, c.now())
	h.Set("Authorization", "Bearer alice")
	got := g.do("POST", "/", body, h)
	if got.Result.Status.State != "completed" || got.Result.ID != first.Result.ID || got.sender(t).Proof != a2a.ProofDID {
		t.Errorf("message/send with proof = HTTP %d %s, want the task completed", got.status, got.body)
	}
}

func TestAttack20SkillsRequireTheirCredentials(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	g := start(t, auth.Config{Schemes: []auth.Scheme{headerScheme{"A"}, headerScheme{"B"}}}, s,
		a2a.AgentSkill{ID: "open", Name: "n", Description: "d", Tags: []string{"t"}},
		a2a.AgentSkill{ID: "strict", Name: "n", Description: "d", Tags: []string{"t"}, Security: []map[string][]string{{"A": {"x"}, "B": {}}, {"B": {"y"}}}},
	)
	for _, tt := range []struct {
		skill string
		h     http.Header
		want  string
	}{
		{`"open"`, http.Header{"A": {"a"}}, "none"},
		{`"strict"`, http.Header{"B": {"b y"}}, "none"},
		{`"strict"`, http.Header{"A": {"a"}}, "403 -32013 skill"},
		{`"strict"`, http.Header{"B": {"b x"}}, "403 -32013 skill"},
		{`"strict"`, http.Header{"A": {"a y"}, "B": {"b"}}, "403 -32013 skill"},
		{`"none"`, http.Header{"A": {"a"}}, "404 -32030 <nil>"},
		{`7`, http.Header{"A": {"a"}}, "400 -32602 <nil>"},
	} {
		got := g.send(tt.h, `"metadata":{"skillId":`+tt.skill+`}`)
		want := tt.want
		if strings.HasSuffix(want, "<nil>") || strings.HasSuffix(want, "skill") {
			want = "200" + want[3:] // errors of methods have the status 200 over JSON-RPC
		}
		if got.reason() != want {
			t.Errorf("skill %s with %v = %s (%s), want %s", tt.skill, tt.h, got.reason(), got.body, want)
		}
	}
	if list := g.do("POST", "/", request("tasks/list", "{}"), http.Header{"A": {"a"}}); strings.Count(list.body, `"id":"`) != 1 {
		t.Errorf("tasks/list = %s, want the one task that was admitted", list.body)
	}
}

func TestOperatorsActForOtherOwners(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	roles := parseRoles(t, `{"roles":[`+strings.Join([]string{role("analyst", "analyst", ""), role("auditor", "auditor", ""), role("operator", "operator", "")}, ",")+`]}`, nil)
	list := tokens(t, map[string]a2a.Principal{
		"alice": {ID: "alice", Roles: []string{"analyst"}}, "auditor": {ID: "carl", Roles: []string{"auditor"}}, "operator": {ID: "olga", Roles: []string{"operator"}},
	})
	g := start(t, auth.Config{Schemes: []auth.Scheme{list}, Roles: roles}, s)
	task := g.send(bearer("alice")).Result.ID
	actingFor := func(token, owner string) http.Header {
		h := bearer(token)
		h.Set("Holdfast-Owner", owner)
		return h
	}
	get, cancel := request("tasks/get", `{"id":"`+task+`"}`), request("tasks/delete", `{"id":"`+task+`"}`)
	for _, tt := range []struct {
		name, body string
		h          http.Header
		want       string
	}{
		{"auditor reads", get, actingFor("auditor", "alice"), "none"},
		{"auditor changes", cancel, actingFor("auditor", "alice"), "403 -32013 owner"},
		{"analyst reads", get, actingFor("alice", "bob"), "403 -32013 owner"},
		{"auditor reads another owner", get, actingFor("auditor", "bob"), "200 -32001 <nil>"},
		{"operator changes", cancel, actingFor("operator", "alice"), "none"},
	} {
		if got := g.do("POST", "/", tt.body, tt.h); got.reason() != tt.want {
			t.Errorf("%s = %s (%s), want %s", tt.name, got.reason(), got.body, tt.want)
		}
	}
	if p := g.send(actingFor("operator", "alice")).sender(t); p.ID != "alice" || p.Actor != "olga" {
		t.Errorf("the sender is %+v, want alice, and olga as her actor", p)
	}
	page, err := auth.ListAudit(t.Context(), s, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for _, e := range page.Entries {
		if e.Time.IsZero() || e.Request == "" || !strings.HasPrefix(e.Credential, "bearer:") {
			t.Errorf("entry %+v lacks time, request or credential", e)
		}
		acts = append(acts, strings.Join([]string{e.Principal, e.Operation, e.Target, e.Outcome}, " "))
	}
	want := []string{"carl tasks/get alice allowed", "carl tasks/get bob allowed", "olga tasks/delete alice allowed", "olga message/send alice allowed"}
	if diff := cmp.Diff(want, acts); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if log := g.log.String(); !strings.Contains(log, "principal=alice") || !strings.Contains(log, "outcome=denied reason=owner") {
		t.Errorf("the log has no denial of alice:\n%s", log)
	}
	a, err := auth.New(auth.Config{Schemes: []auth.Scheme{list}, Roles: roles, Records: s})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{store.System, "a\nb", strings.Repeat("x", a2a.MaxPrincipalID+1)} {
		m, _ := a2a.MethodByName(a2a.MethodGet)
		if err := a.Authorize(t.Context(), &rpc.Call{Method: &m, Principal: a2a.Principal{ID: "olga", Level: a2a.TrustSuperAdmin}, Owner: owner}); a2a.CodeOf(err) != a2a.CodeDenied {
			t.Errorf("Authorize() for the owner %q = %v, want it denied", owner, err)
		}
	}
	without := start(t, auth.Config{Schemes: []auth.Scheme{list}}, inmem.New())
	if got := without.do("POST", "/", get, actingFor("operator", "alice")); got.reason() != "403 -32013 owner" {
		t.Errorf("without a roles file = %s, want 403 owner", got.reason())
	}
}

// The decision about a call equals the one of a plain model.
func TestDecisionsAgainstAModel(t *testing.T) {
	t.Parallel()
	levels := a2a.TrustLevel("").EnumValues()
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom(a2a.Methods()).Draw(t, "method")
		level := func(name string) a2a.TrustLevel { return a2a.TrustLevel(rapid.SampledFrom(levels).Draw(t, name)) }
		r := a2a.KeycloakRole{ID: "3f1b8f9e-2c53-4f29-9d0e-0d6a7a3b1c11", Name: "r", RealmName: "x", TrustLevel: level("level"), Permissions: []string{}}
		r.Permissions = rapid.SliceOfN(rapid.SampledFrom([]string{method.Permission, strings.Split(method.Permission, ".")[0] + ".*", "*", "tasks", "other.*", method.Permission + "x"}), 0, 2).Draw(t, "permissions")
		if r.Permissions == nil {
			r.Permissions = []string{}
		}
		tr := a2a.AgentTrust{IdentityProvider: "keycloak", InheritedRoles: []a2a.KeycloakRole{}, CreationTimestamp: 1, AllowedOperations: map[string]a2a.TrustLevel{}}
		tr.CreatorID = a2a.String("creator")
		need := method.Level
		if rapid.Bool().Draw(t, "per operation") {
			r.OperationPermissions = map[string]a2a.TrustLevel{method.Name: level("operation")}
			need = r.OperationPermissions[method.Name]
		}
		listed := true
		if rapid.Bool().Draw(t, "allowed operations") {
			allowed := level("allowed")
			if listed = rapid.Bool().Draw(t, "listed"); listed {
				tr.AllowedOperations[method.Name] = allowed
				if r.OperationPermissions == nil || allowed.Rank() > need.Rank() {
					need = allowed
				}
			} else {
				tr.AllowedOperations["tasks/get"] = allowed
				listed = method.Name == "tasks/get"
				if listed && (r.OperationPermissions == nil || allowed.Rank() > need.Rank()) {
					need = allowed
				}
			}
		}
		p := a2a.Principal{ID: "p", Roles: []string{"r"}}
		if rapid.Bool().Draw(t, "scopes") {
			p.Scopes = rapid.SliceOfDistinct(rapid.SampledFrom([]a2a.Scope{a2a.ScopeRead, a2a.ScopeWrite}), func(s a2a.Scope) a2a.Scope { return s }).Draw(t, "has")
		}
		guests := need == a2a.TrustGuest
		want := (p.Scopes == nil || slices.Contains(p.Scopes, method.Scope)) && listed && r.TrustLevel.Rank() >= need.Rank()
		if len(r.Permissions) > 0 && !guests {
			want = want && slices.ContainsFunc(r.Permissions, func(has string) bool {
				return has == "*" || has == method.Permission || strings.HasSuffix(has, ".*") && strings.Split(has, ".")[0] == strings.Split(method.Permission, ".")[0]
			})
		}
		file, err := wire.Marshal(map[string]any{"roles": []a2a.KeycloakRole{r}, "trust": tr})
		if err != nil {
			t.Fatal(err)
		}
		roles, err := auth.ParseRoles(file, nil)
		if err != nil {
			t.Fatalf("ParseRoles(%s) = %v", file, err)
		}
		a, err := auth.New(auth.Config{Schemes: []auth.Scheme{rolesScheme{p}}, Roles: roles, Records: inmem.New()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Authenticate(&http.Request{Header: http.Header{}})
		if err != nil {
			t.Fatal(err)
		}
		err = a.Authorize(t.Context(), &rpc.Call{Method: &method, Principal: got})
		if (err == nil) != want {
			t.Errorf("%s by %+v with %s = %v, want allowed %t", method.Name, p, file, err, want)
		}
	})
}

// rolesScheme authenticates every request as one principal.
type rolesScheme struct{ p a2a.Principal }

func (rolesScheme) Declare() map[string]a2a.SecurityScheme {
	return map[string]a2a.SecurityScheme{"s": a2a.MutualTLSSecurityScheme{}}
}
func (rolesScheme) Challenge() auth.Challenge { return auth.Challenge{Scheme: "S"} }

func (s rolesScheme) Authenticate(*http.Request) (string, a2a.Principal, error) {
	return "s", s.p, nil
}
