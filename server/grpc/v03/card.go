package v03

import (
	"encoding/json"

	pb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

// AppendCard appends an agent card to dst. On error it returns dst unchanged.
func (c Codec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	raw, err := jsonv10.Codec{}.AppendCard(nil, card)
	if err != nil {
		return dst, err
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return dst, err
	}
	members["protocolVersion"], members["url"], members["preferredTransport"] = c.Version(), card.URL, card.PreferredTransport
	members["supportsAuthenticatedExtendedCard"] = card.SupportsAuthenticatedExtendedCard
	var interfaces []any
	for _, i := range card.AdditionalInterfaces {
		interfaces = append(interfaces, map[string]any{"url": i.URL, "transport": i.Transport})
	}
	members["additionalInterfaces"] = interfaces
	return appendMembers(dst, members)
}

// appendCard appends an agent card to dst. raw is its JSON with the members of both versions.
func appendCard(dst, raw []byte) ([]byte, error) {
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return dst, err
	}
	return appendMembers(dst, members)
}

// appendMembers appends an agent card to dst. Members that both versions have are in the form of
// A2A 1.0, because in Protocol Buffers both versions have the same structure, except for one name.
func appendMembers(dst []byte, members map[string]any) ([]byte, error) {
	renameSecurity(members)
	skills, _ := members["skills"].([]any)
	for _, skill := range skills {
		renameSecurity(skill)
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return dst, err
	}
	var out pb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &out); err != nil {
		return dst, err
	}
	return message.Append(dst, &out)
}

// renameSecurity gives the security requirements of a card or of a skill their name in A2A 0.3.
func renameSecurity(object any) {
	if m, ok := object.(map[string]any); ok {
		m["security"] = m["securityRequirements"]
	}
}
