package main

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// decodeResponse decodes a response as a client does, encodes it again, and matches it.
func decodeResponse(operation string, payload, want map[string]any) string {
	again, err := encodeAgain(operation, payload)
	if err != nil {
		return err.Error()
	}
	var got any
	if err := json.Unmarshal(again, &got); err != nil {
		return err.Error()
	}
	return match(want, got)
}

func encodeAgain(operation string, payload map[string]any) ([]byte, error) {
	codec := v10.Codec{}
	content := any(payload)
	failed, isError := payload["error"]
	if result, ok := payload["result"]; ok {
		content = result
	} else if isError {
		content = failed
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if isError {
		e, err := codec.DecodeError(raw)
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"error": map[string]any{"code": e.Code.JSONRPC(), "message": e.Message}})
	}
	m, _ := a2a.MethodByName(actsMethods[operation])
	var result any
	switch operation {
	case "send_message", "send_streaming_message", "subscribe_to_task":
		e, err := codec.DecodeEvent(raw)
		if err != nil {
			return nil, err
		}
		return codec.AppendEvent(nil, e)
	case "get_agent_card", "get_extended_agent_card":
		result = new(a2a.AgentCard)
	default:
		result = new(a2a.Task)
	}
	if err := codec.DecodeResult(raw, result); err != nil {
		return nil, err
	}
	return codec.AppendResult(nil, &m, result)
}
