package s3

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// urlFormat is the form of a URL, for errors.
const urlFormat = "s3://ACCESS_KEY:SECRET_KEY@BUCKET/PREFIX?endpoint=HOST:PORT&region=REGION&refs=bucket"

// defaultEndpoint is the host of the service that a URL without endpoint means.
const defaultEndpoint = "s3.amazonaws.com"

// ParseURL returns the configuration of a URL such as s3://BUCKET/PREFIX?endpoint=HOST:PORT. All parts
// except the bucket are optional. The parameters are endpoint (default s3.amazonaws.com), region,
// insecure=true for HTTP, and refs=bucket for Config.RefsInBucket (default refs=database). Credentials are
// the user and the password of the URL, or the ones that [Config] documents. Errors do not contain the URL,
// which may have a secret key.
func ParseURL(text string) (Config, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" {
		return Config{}, errors.New("cannot be parsed: want " + urlFormat + ", with special characters in the keys as %XX")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, errors.New("has parameters that cannot be parsed: want ?name=value&name=value, with special characters as %XX")
	}
	c := Config{Endpoint: defaultEndpoint, Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	if c.Bucket == "" {
		return Config{}, errors.New("has no bucket: want " + urlFormat)
	}
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if u.User != nil {
		c.AccessKey = u.User.Username()
		c.SecretKey, _ = u.User.Password()
		if c.AccessKey == "" || c.SecretKey == "" {
			return Config{}, errors.New("has only one of access key and secret key: set both or neither")
		}
	}
	for name, values := range q {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			c.Endpoint = value
		case "region":
			c.Region = value
		case "insecure":
			c.Insecure = value == "true"
			if value != "true" && value != "false" {
				return Config{}, errors.New("has an invalid insecure: want true or false")
			}
		case "refs":
			c.RefsInBucket = value == "bucket"
			if value != "bucket" && value != "database" {
				return Config{}, errors.New("has invalid refs: want bucket or database")
			}
		default:
			return Config{}, fmt.Errorf("has the unknown parameter %q: want endpoint, region, insecure or refs", name)
		}
	}
	if c.Endpoint == "" || strings.Contains(c.Endpoint, "/") {
		return Config{}, errors.New("has an invalid endpoint: want HOST or HOST:PORT, without a scheme")
	}
	return c, nil
}
