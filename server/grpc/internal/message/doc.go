// Package message converts free-form JSON values between the model of package a2a and protobuf,
// and encodes and decodes messages for the codecs of package grpc.
package message
