package client

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// The transports of [Config.Transport], as agent cards name them.
const (
	TransportJSONRPC = "JSONRPC"
	TransportREST    = "HTTP+JSON"
)

// The protocol versions of [Config.Version].
const (
	Version03 = "0.3"
	Version10 = "1.0"
)

// codec converts between the model and the JSON of one protocol version.
type codec interface {
	EncodeParams(params any) ([]byte, error)
	DecodeResult(raw []byte, v any) error
	DecodeEvent(raw []byte) (a2a.Event, error)
}

// transport builds the requests of a binding and parses its responses.
type transport interface {
	// build returns the HTTP method, the URL and the body of a request.
	build(r *request) (verb, url string, body []byte, err error)
	// parse returns the result of a response or the event of a stream's item, or the error in it.
	// The error has the code [a2a.CodeInvalidAgentResponse] if the text is neither.
	parse(text []byte) (json.RawMessage, error)
}

// binding is an interface of an agent, and how to use it.
type binding struct {
	a2a.AgentInterface
	url   *url.URL
	codec codec
	transport
}

// newBinding returns the binding for an interface, or nil if this package does not support it.
func newBinding(i a2a.AgentInterface, u *url.URL) *binding {
	b := &binding{AgentInterface: i, url: u}
	switch i.Transport + " " + i.ProtocolVersion {
	case TransportJSONRPC + " " + Version03:
		c := v03.Codec{}
		b.codec, b.transport = c, jsonRPC{u, c}
	case TransportJSONRPC + " " + Version10:
		c := v10.Codec{Tenant: i.Tenant}
		b.codec, b.transport = c, jsonRPC{u, c}
	case TransportREST + " " + Version03:
		c := v03.ProtoCodec{}
		b.codec, b.transport = c, rest{u, "", c}
	case TransportREST + " " + Version10:
		c := v10.Codec{} // paths have the tenant
		b.codec, b.transport = c, rest{u, i.Tenant, c}
	default:
		return nil
	}
	return b
}

// shortVersion returns major and minor of a protocol version. A version without a minor has the
// minor 0, and 0.2 and earlier versions are read as 0.3.
func shortVersion(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if major == "" || major == "0" {
		return Version03
	}
	return major + "." + cmp.Or(minor, "0")
}

// choose returns the binding for the supported interface that fits the Version and Transport of c
// best, the first one of several. from is the URL of the card.
func (c *Config) choose(offered []a2a.AgentInterface, from *url.URL) (*binding, error) {
	var best *binding
	bestFit := -1
	var names []string
	for _, i := range offered {
		names = append(names, strings.TrimSpace(i.Transport+" "+i.ProtocolVersion))
		i.ProtocolVersion = shortVersion(i.ProtocolVersion)
		u, err := from.Parse(i.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			continue
		}
		if from.Scheme == "https" && u.Scheme == "http" {
			if u.Host != from.Host {
				continue // requests would have the token in plain text
			}
			u.Scheme = from.Scheme // the server is behind a proxy with TLS
		}
		b := newBinding(i, u)
		if b == nil {
			continue
		}
		fit := 0
		if c.Version == i.ProtocolVersion {
			fit += 2
		}
		if c.Transport == i.Transport {
			fit++
		}
		if fit > bestFit {
			best, bestFit = b, fit
		}
	}
	if best == nil {
		return nil, a2a.Errorf(a2a.CodeVersionNotSupported,
			"the agent card has no interface that this client supports (JSONRPC or HTTP+JSON, A2A 0.3 or 1.0, not http in a card from https): it offers %s",
			a2a.Quote(strings.Join(names, ", ")))
	}
	return best, nil
}
