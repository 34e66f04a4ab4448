package codec

import (
	"encoding/json"
	"errors"

	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // the details of errors
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// appendStatus appends a google.rpc.Status to dst, with the message and the details of errors over
// HTTP+JSON. If code is OK, appendStatus uses the code of A2A 1.0.
func appendStatus(dst []byte, code codes.Code, e *a2a.Error, requestID string) []byte {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var name struct {
		Status codes.Code `json:"status"`
	}
	var status spb.Status
	err := json.Unmarshal(jsonv10.Codec{}.AppendHTTPError(nil, e.Code.HTTPStatus(), e, requestID), &body)
	if err == nil {
		err = errors.Join(json.Unmarshal(body.Error, &name), protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body.Error, &status))
	}
	if err != nil { // not possible: AppendHTTPError writes this form
		name.Status, status.Message = codes.Internal, e.Message
	}
	switch {
	case code != codes.OK:
	case e.Code == a2a.CodeMethodNotFound:
		code = codes.Unimplemented
	case e.Code == a2a.CodeTooLarge:
		code = codes.ResourceExhausted
	default:
		code = name.Status
	}
	status.Code = int32(code)
	dst, _ = proto.MarshalOptions{}.MarshalAppend(dst, &status) // its texts come from JSON, so they are UTF-8
	return dst
}
