package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

const (
	cardPath   = "/.well-known/agent-card.json"
	strictPath = "/v1.0/.well-known/agent-card.json"
)

// cardInterface is an interface on a card of either version.
type cardInterface struct {
	URL, Transport, ProtocolBinding, ProtocolVersion, Tenant string
}

// cardView has the members of cards that tests check.
type cardView struct {
	URL, PreferredTransport, ProtocolVersion  string
	AdditionalInterfaces, SupportedInterfaces []cardInterface
	SupportsAuthenticatedExtendedCard         bool
	Skills                                    []struct{ ID string }
	Capabilities                              struct {
		Streaming, PushNotifications, ExtendedAgentCard bool
		Extensions                                      []struct{ URI string }
	}
}

func viewCard(t *testing.T, raw []byte) (v cardView) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("card %s: %v", raw, err)
	}
	return v
}

func TestCardListsTheInterfacesOfBothVersions(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		c.Card.URL = "https://agent.example.com/"
		c.Codecs = []rpc.Codec{v03.Codec{}, v10.Codec{Tenant: "acme"}}
		c.Card.AdditionalInterfaces = []a2a.AgentInterface{
			{URL: "grpc.example.com:443", Transport: "GRPC", ProtocolVersion: "1.0"},
			{URL: "old.example.com:443", Transport: "GRPC", ProtocolVersion: "0.3"},
			{URL: "older.example.com:443", Transport: "GRPC"},
		}
	})
	v10List := []cardInterface{
		{URL: "https://agent.example.com/", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0", Tenant: "acme"},
		{URL: "https://agent.example.com", ProtocolBinding: "HTTP+JSON", ProtocolVersion: "1.0", Tenant: "acme"},
		{URL: "https://agent.example.com/", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"},
		{URL: "https://agent.example.com/rest", ProtocolBinding: "HTTP+JSON", ProtocolVersion: "0.3"},
		{URL: "grpc.example.com:443", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
		{URL: "old.example.com:443", ProtocolBinding: "GRPC", ProtocolVersion: "0.3"},
		{URL: "older.example.com:443", ProtocolBinding: "GRPC", ProtocolVersion: "0.3"},
	}
	v03List := []cardInterface{
		{URL: "https://agent.example.com/", Transport: "JSONRPC"},
		{URL: "https://agent.example.com/rest", Transport: "HTTP+JSON"},
		{URL: "old.example.com:443", Transport: "GRPC"},
		{URL: "older.example.com:443", Transport: "GRPC"},
	}
	for _, path := range []string{"/", cardPath, "/.well-known/agent.json"} {
		card := viewCard(t, e.do("GET", path, "", nil).Body)
		if card.ProtocolVersion != "0.3.0" || card.URL != v03List[0].URL || card.PreferredTransport != "JSONRPC" {
			t.Errorf("GET %s = %+v, want A2A 0.3.0 over JSON-RPC", path, card)
		}
		if diff := cmp.Diff(v03List, card.AdditionalInterfaces); diff != "" {
			t.Errorf("additionalInterfaces of %s (-want +got):\n%s", path, diff)
		}
		if diff := cmp.Diff(v10List, card.SupportedInterfaces); diff != "" {
			t.Errorf("supportedInterfaces of %s (-want +got):\n%s", path, diff)
		}
		transports := map[string]string{}
		for _, i := range card.AdditionalInterfaces {
			if other, ok := transports[i.URL]; ok && other != i.Transport {
				t.Errorf("GET %s: %s declares %s and %s, want one transport per URL", path, i.URL, other, i.Transport)
			}
			transports[i.URL] = i.Transport
		}
	}
	if diff := cmp.Diff(v10List, viewCard(t, e.do("GET", strictPath, "", nil).Body).SupportedInterfaces); diff != "" {
		t.Errorf("supportedInterfaces of %s (-want +got):\n%s", strictPath, diff)
	}
}

// The server answers at the URL of every interface that the card declares.
func TestInterfacesOfTheCardAreServed(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	card := viewCard(t, e.do("GET", "/", "", nil).Body)
	const v03Message, v10Message = `{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"a"}]}}`, `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`
	for _, i := range card.SupportedInterfaces {
		path, body := strings.TrimPrefix(i.URL, e.url), v10Message
		switch i.ProtocolBinding + i.ProtocolVersion {
		case "JSONRPC1.0":
			body = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + v10Message + `}`
		case "JSONRPC0.3":
			body = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":` + v03Message + `}`
		case "HTTP+JSON1.0":
			path += "/message:send"
		case "HTTP+JSON0.3":
			path, body = path+"/v1/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"a"}]}}`
		}
		if status, _, got := e.fetch("POST", path, body, "A2A-Version", i.ProtocolVersion); status != 200 || !strings.Contains(got, `"contextId"`) {
			t.Errorf("POST %s for %+v = %d %s, want a task", path, i, status, got)
		}
	}
	if len(card.SupportedInterfaces) != 4 {
		t.Errorf("interfaces %+v, want both bindings of both versions", card.SupportedInterfaces)
	}
	if status, _, body := e.fetch("GET", "/rest/v1/tasks/nope", ""); status != 404 || !strings.Contains(body, `"task_not_found"`) {
		t.Errorf("GET /rest/v1/tasks/nope = %d %s, want the error of HTTP+JSON", status, body)
	}
}

// Without a configured URL, a card has the name by which the client reached the server, whichever
// names other clients used.
func TestCardHasTheHostOfTheRequest(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	for i := range 200 {
		host := fmt.Sprintf("agent-%d.example.com", i%70)
		r := e.request("GET", cardPath, "", nil)
		r.Host = host
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		if card := viewCard(t, w.Body.Bytes()); card.URL != "http://"+host+"/" || card.SupportedInterfaces[1].URL != "http://"+host {
			t.Fatalf("card for %s = %s, want its URL", host, w.Body)
		}
	}
}

// A card and the links to files have the scheme of the request.
func TestAddressesHaveTheSchemeOfTheRequest(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), returnFiles, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	for _, address := range []string{"http://agent.example.com/", "https://agent.example.com/"} {
		if card := viewCard(t, e.serve("GET", address, "").Body.Bytes()); card.URL != address {
			t.Errorf("card at %s has the URL %s", address, card.URL)
		}
		sent := e.serve("POST", address, request("message/send", fileMessage(2<<20)), "User", "alice")
		if !strings.Contains(sent.Body.String(), `"uri":"`+address+`blobs/`) {
			t.Errorf("message/send at %s = %.500s, want a link with its scheme", address, sent.Body)
		}
	}
}

// A trusted proxy's headers determine the address on cards and in links. The same headers from another address have no
// effect, and one warning names the settings.
func TestCardHasTheAddressThatATrustedProxyNames(t *testing.T) {
	t.Parallel()
	behind := func(c *server.Config) { c.Security.TrustedProxies = []string{"192.0.2.0/24", "2001:db8::1"} }
	tls := headers{"X-Forwarded-Proto", "https"}
	for name, test := range map[string]struct {
		change func(*server.Config)
		remote string
		h      headers
		want   string
		warns  bool
	}{
		"scheme":                {behind, "192.0.2.7:4000", tls, "https://agent.example.com/", false},
		"IPv6":                  {behind, "[2001:db8::1]:4000", tls, "https://agent.example.com/", false},
		"IPv4 in IPv6":          {behind, "[::ffff:192.0.2.7]:4000", tls, "https://agent.example.com/", false},
		"host and path":         {behind, "192.0.2.7:4000", append(headers{"X-Forwarded-Host", "a.example.org:8443", "X-Forwarded-Prefix", "/agents/travel/"}, tls...), "https://a.example.org:8443/agents/travel/", false},
		"several proxies":       {behind, "192.0.2.7:4000", headers{"X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "a.example.org, inner"}, "https://a.example.org/", false},
		"no headers":            {behind, "192.0.2.7:4000", nil, "http://agent.example.com/", false},
		"invalid values":        {behind, "192.0.2.7:4000", headers{"X-Forwarded-Proto", "javascript", "X-Forwarded-Host", "a/b?c", "X-Forwarded-Prefix", "/a?b"}, "http://agent.example.com/", false},
		"a host with a user":    {behind, "192.0.2.7:4000", headers{"X-Forwarded-Host", "me@evil.example"}, "http://agent.example.com/", false},
		"a prefix with a host":  {behind, "192.0.2.7:4000", headers{"X-Forwarded-Prefix", "//evil.example"}, "http://agent.example.com/", false},
		"another address":       {behind, "198.51.100.1:4000", tls, "http://agent.example.com/", true},
		"no trusted proxies":    {nil, "192.0.2.7:4000", tls, "http://agent.example.com/", true},
		"no address":            {behind, "", tls, "http://agent.example.com/", true},
		"the URL is configured": {func(c *server.Config) { c.Card.URL = "https://own.example/" }, "192.0.2.7:4000", headers{"X-Forwarded-Proto", "http"}, "https://own.example/", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged await.Buffer
			change := func(c *server.Config) {
				c.Security.Authenticator, c.Logger = headerAuth{}, slog.New(slog.NewTextHandler(&logged, nil))
				if test.change != nil {
					test.change(c)
				}
			}
			e := startEngine(t, newStore(), returnFiles, change)
			for range 2 {
				serve := func(verb, path, body string) string {
					r := e.request(verb, path, body, append(headers{"User", "alice"}, test.h...))
					r.Host, r.RemoteAddr = "agent.example.com", test.remote
					w := httptest.NewRecorder()
					e.server.ServeHTTP(w, r)
					return w.Body.String()
				}
				if card := viewCard(t, []byte(serve("GET", cardPath, ""))); card.URL != test.want {
					t.Errorf("the card has the URL %s, want %s", card.URL, test.want)
				}
				if sent := serve("POST", "/", request("message/send", fileMessage(2<<20))); !strings.Contains(sent, `"uri":"`+test.want+`blobs/`) {
					t.Errorf("message/send = %.500s, want a link below %s", sent, test.want)
				}
			}
			if n := strings.Count(logged.String(), "TrustedProxies"); n != 0 != test.warns || n > 1 {
				t.Errorf("%d warnings name TrustedProxies, want one: %t\n%s", n, test.warns, logged.String())
			}
		})
	}
	_, err := server.New(server.Config{Card: a2a.AgentCard{Name: "a"}, Security: server.Security{TrustedProxies: []string{"10.0.0.1/8", "proxy"}}})
	if err == nil || !strings.Contains(err.Error(), `"10.0.0.1/8"`) || !strings.Contains(err.Error(), `"proxy"`) {
		t.Errorf("New() = %v, want both invalid entries of TrustedProxies", err)
	}
}

// schemes is an authenticator with every kind of scheme in its card.
type schemes struct{ headerAuth }

func (schemes) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	return map[string]a2a.SecurityScheme{
		"key":  a2a.APIKeySecurityScheme{In: "header", Name: "User"},
		"http": a2a.HTTPAuthSecurityScheme{Scheme: "bearer"},
		"tls":  a2a.MutualTLSSecurityScheme{Description: "client certificate"},
		"oidc": a2a.OpenIDConnectSecurityScheme{URL: "https://login.example.com/.well-known"},
		"oauth": a2a.OAuth2SecurityScheme{Flows: a2a.OAuthFlows{
			ClientCredentials: &a2a.ClientCredentialsOAuthFlow{TokenURL: "https://login.example.com/token", Scopes: map[string]string{"read": "Read"}},
		}},
	}, []map[string][]string{{"oauth": {"read"}, "tls": {}}, {"key": {}}}
}

// Each version reads its own members of the card.
func TestCardIsReadableByBothVersions(t *testing.T) {
	t.Parallel()
	skill := a2a.AgentSkill{ID: "s", Name: "n", Description: "d", Tags: []string{"t"}, Security: []map[string][]string{{"key": {}}}}
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = schemes{}
		c.Card.Skills = []a2a.AgentSkill{skill}
	})
	raw := e.do("GET", "/", "", nil).Body
	var first, second a2a.AgentCard
	if err := (v03.Codec{}).DecodeResult(raw, &first); err != nil {
		t.Fatal(err)
	}
	if err := (v10.Codec{}).DecodeResult(raw, &second); err != nil {
		t.Fatal(err)
	}
	wantSchemes, wantSecurity := schemes{}.Security()
	for version, card := range map[string]a2a.AgentCard{"0.3": first, "1.0": second} {
		if err := card.Validate(); err != nil {
			t.Errorf("A2A %s: Validate() = %v", version, err)
		}
		if !reflect.DeepEqual(card.SecuritySchemes, wantSchemes) {
			t.Errorf("A2A %s: security schemes %+v, want %+v", version, card.SecuritySchemes, wantSchemes)
		}
		if diff := cmp.Diff(wantSecurity, card.Security); diff != "" {
			t.Errorf("A2A %s: security (-want +got):\n%s", version, diff)
		}
		if diff := cmp.Diff([]a2a.AgentSkill{skill}, card.Skills); diff != "" {
			t.Errorf("A2A %s: skills (-want +got):\n%s", version, diff)
		}
		if !card.Capabilities.Streaming || card.URL != e.url+"/" || card.PreferredTransport != "JSONRPC" {
			t.Errorf("A2A %s: card %+v, want streaming over JSON-RPC", version, card)
		}
	}
}

func TestStrictCardHasMembersOfV10Only(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = schemes{}
		c.Card.Skills = []a2a.AgentSkill{{ID: "s", Name: "n", Description: "d", Tags: []string{"t"}, Security: []map[string][]string{{"key": {}}}, Author: "a"}}
	})
	want := map[string]string{
		"":                "capabilities defaultInputModes defaultOutputModes description name securityRequirements securitySchemes skills supportedInterfaces version",
		"capabilities":    "extensions pushNotifications streaming",
		"skills":          "description id name securityRequirements tags",
		"securitySchemes": "apiKeySecurityScheme httpAuthSecurityScheme mtlsSecurityScheme oauth2SecurityScheme openIdConnectSecurityScheme",
	}
	for _, request := range []struct {
		path string
		h    headers
	}{{strictPath, nil}, {cardPath, headers{"A2A-Version", "1.0"}}, {"/", headers{"A2A-Version", "1.0.1"}}, {cardPath, headers{"A2A-Version", "1"}}, {cardPath + "?A2A-Version=1.0", nil}} {
		var card map[string]any
		if err := json.Unmarshal(e.do("GET", request.path, "", request.h).Body, &card); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{"": names(card), "capabilities": names(card["capabilities"]), "skills": names(card["skills"].([]any)[0])}
		var kinds []string
		for _, scheme := range card["securitySchemes"].(map[string]any) {
			kinds = append(kinds, names(scheme))
		}
		slices.Sort(kinds)
		got["securitySchemes"] = strings.Join(kinds, " ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members of %s %v (-want +got):\n%s", request.path, request.h, diff)
		}
	}
}

// names returns the sorted names of the members of an object.
func names(object any) string {
	var all []string
	for name := range object.(map[string]any) {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestCardsAreCacheable(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	tags := map[string]string{}
	for _, request := range []struct {
		path, version, vary string
	}{{cardPath, "", "A2A-Version"}, {cardPath, "1.0", "A2A-Version"}, {"/", "", "A2A-Version"}, {strictPath, "", ""}} {
		label := fmt.Sprintf("GET %s with version %q", request.path, request.version)
		got := e.do("GET", request.path, "", headers{"A2A-Version", request.version})
		tag, modified := got.Header.Get("ETag"), got.Header.Get("Last-Modified")
		if got.Status != 200 || tag == "" || modified == "" || !strings.Contains(got.Header.Get("Cache-Control"), "max-age=") || got.Header.Get("Vary") != request.vary {
			t.Errorf("%s = %d with headers %v, want ETag, Last-Modified, max-age and Vary %q", label, got.Status, got.Header, request.vary)
		}
		if other, ok := tags[tag]; ok && other != string(got.Body) {
			t.Errorf("%s: another card has the ETag %s too", label, tag)
		}
		tags[tag] = string(got.Body)
		for _, condition := range []headers{{"If-None-Match", tag}, {"If-Modified-Since", modified}} {
			again := e.do("GET", request.path, "", append(condition, "A2A-Version", request.version))
			if again.Status != http.StatusNotModified || len(again.Body) > 0 {
				t.Errorf("%s and %s = %d %s, want 304", label, condition[0], again.Status, again.Body)
			}
		}
		if other := e.do("GET", request.path, "", headers{"If-None-Match", `"other"`, "A2A-Version", request.version}); other.Status != 200 {
			t.Errorf("%s and another ETag = %d, want 200", label, other.Status)
		}
		if head := e.do("HEAD", request.path, "", headers{"A2A-Version", request.version}); head.Status != 200 || head.Header.Get("ETag") != tag || len(head.Body) > 0 {
			t.Errorf("HEAD %s = %d with ETag %s, want 200 and %s", request.path, head.Status, head.Header.Get("ETag"), tag)
		}
	}
	if len(tags) != 2 {
		t.Errorf("%d different ETags, want 2: the union card and the strict card", len(tags))
	}
}
