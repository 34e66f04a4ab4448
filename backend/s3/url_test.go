//go:build services

package s3

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Config{
		"s3://files":                       {Endpoint: "s3.amazonaws.com", Bucket: "files"},
		"s3://files/a/b":                   {Endpoint: "s3.amazonaws.com", Bucket: "files", Prefix: "a/b/"},
		"s3://files/a/":                    {Endpoint: "s3.amazonaws.com", Bucket: "files", Prefix: "a/"},
		"s3://k:s%2F%2B@files?region=eu-1": {Endpoint: "s3.amazonaws.com", Bucket: "files", Region: "eu-1", AccessKey: "k", SecretKey: "s/+"},
		"s3://files?endpoint=127.0.0.1:9000&insecure=true": {
			Endpoint: "127.0.0.1:9000", Bucket: "files", Insecure: true,
		},
		"s3://files?refs=bucket":   {Endpoint: "s3.amazonaws.com", Bucket: "files", RefsInBucket: true},
		"s3://files?refs=database": {Endpoint: "s3.amazonaws.com", Bucket: "files"},
	} {
		if got, err := ParseURL(text); err != nil || got != want {
			t.Errorf("ParseURL(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestInvalidURLsAreRejectedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3:files":                          "cannot be parsed",
		"s3://k:hunter2%zz@files":           "cannot be parsed",
		"s3:///a":                           "no bucket",
		"s3://k@files":                      "only one of access key and secret key",
		"s3://:hunter2@files":               "only one of access key and secret key",
		"s3://files?endpoint=http://x":      "invalid endpoint",
		"s3://files?endpoint=":              "invalid endpoint",
		"s3://files?refs=redis":             "invalid refs: want bucket or database",
		"s3://files?insecure=yes":           "invalid insecure",
		"s3://files?password=hunter2":       `unknown parameter "password"`,
		"s3://files?a=%zz":                  "parameters that cannot be parsed",
		"s3://k:hunter2@files?ssl=disabled": `unknown parameter "ssl"`,
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseURL(%q) = %v, want %q without the secret", text, err, want)
		}
	}
}
