package loadgen

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

var errNotProto = errors.New("answer is not a message of A2A 1.0")

// Numbers of the fields that the generator uses. The fields of SendMessageResponse are its
// variants.
const (
	fieldTask, fieldMessage  = 1, 2 // SendMessageResponse
	fieldTaskID, fieldStatus = 1, 3 // Task
	fieldState               = 1    // TaskStatus
	fieldGetID               = 2    // GetTaskRequest
)

// The states of TaskState that the generator distinguishes, with their names in A2A 0.3.
var protoStates = map[uint64][]byte{
	3: []byte("completed"), 4: []byte("failed"), 5: []byte("canceled"), 7: []byte("rejected"),
}

var stateOther = []byte("not terminal")

// scanProto reads a message of gRPC: a Task, or a SendMessageResponse. Like scan it reads only what
// the generator uses.
func (a *answer) scanProto(text []byte, isTask bool) error {
	*a = answer{rest: true, hasResult: true, kind: kindTask}
	if isTask {
		return a.scanProtoTask(text)
	}
	a.kind = nil
	return fields(text, func(number int, value []byte, _ uint64) error {
		switch number {
		case fieldTask:
			a.kind = kindTask
			return a.scanProtoTask(value)
		case fieldMessage:
			a.kind = kindMessage
		}
		return nil
	})
}

func (a *answer) scanProtoTask(text []byte) error {
	return fields(text, func(number int, value []byte, _ uint64) error {
		switch number {
		case fieldTaskID:
			a.task = value
		case fieldStatus:
			a.state = stateOther
			return fields(value, func(number int, _ []byte, n uint64) error {
				if name, known := protoStates[n]; number == fieldState && known {
					a.state = name
				}
				return nil
			})
		}
		return nil
	})
}

// fields calls do with each field of a message. value is its text, and n its number if it is one.
func fields(text []byte, do func(number int, value []byte, n uint64) error) error {
	for len(text) > 0 {
		number, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return errNotProto
		}
		text = text[size:]
		var value []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(text)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(text)
		default:
			size = protowire.ConsumeFieldValue(number, kind, text)
		}
		if size < 0 {
			return errNotProto
		}
		text = text[size:]
		if err := do(int(number), value, n); err != nil {
			return err
		}
	}
	return nil
}
