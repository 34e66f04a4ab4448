package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Config configures contents in a bucket.
type Config struct {
	// Endpoint is the host of the service, with a port if it is not the default one. Required.
	Endpoint string
	// Insecure uses HTTP instead of HTTPS.
	Insecure bool
	// Region is the region of the bucket. Empty means that the service reports it.
	Region string
	// Bucket is the name of an existing bucket. Required.
	Bucket string
	// Prefix is the prefix of all keys, such as "holdfast/". Stores with different refs need
	// different prefixes, because each removes the objects that it does not know.
	Prefix string
	// RefsInBucket reports that a URL asks for blobs with refs that are in the bucket too;
	// see [Contents.Blobs]. Open ignores it.
	RefsInBucket bool
	// AccessKey, SecretKey and SessionToken are the credentials. If AccessKey is empty, the
	// credentials come from the environment (AWS_ACCESS_KEY_ID), from the file ~/.aws/credentials, or
	// from the machine.
	AccessKey, SecretKey, SessionToken string
	// Retries is the number of attempts of a request. Default 4, within about three seconds.
	Retries int
	// Transport sends requests. Default: one that connects within 5 s and waits up to 30 s for the
	// header of a response.
	Transport http.RoundTripper
}

const (
	defaultRetries  = 4
	responseTimeout = 30 * time.Second
)

func (c *Config) complete() error {
	var errs []error
	if c.Endpoint == "" {
		errs = append(errs, errors.New("s3: Endpoint is empty, want a host"))
	}
	if strings.ContainsAny(c.Endpoint, "@/") {
		errs = append(errs, errors.New("s3: Endpoint must be host or host:port, without credentials")) // not shown: it may have a password
	}
	if c.Bucket == "" {
		errs = append(errs, errors.New("s3: Bucket is empty, want the name of a bucket"))
	}
	if c.Retries < 0 {
		errs = append(errs, fmt.Errorf("s3: Retries must not be negative (%d)", c.Retries))
	}
	if c.Retries == 0 {
		c.Retries = defaultRetries
	}
	if c.Transport == nil {
		t, err := minio.DefaultTransport(!c.Insecure)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		t.ResponseHeaderTimeout = responseTimeout
		c.Transport = t
	}
	return errors.Join(errs...)
}

func (c *Config) credentials() *credentials.Credentials {
	if c.AccessKey != "" {
		return credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken)
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
}

// Contents implements blobdriver.Contents with one object per content. It is safe for concurrent use.
type Contents struct {
	core minio.Core
	cfg  Config
}

var _ blobdriver.Contents = (*Contents)(nil)

// Open returns the contents in a bucket. It fails if the bucket does not exist or cannot be
// read.
func Open(ctx context.Context, cfg Config) (*Contents, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds: cfg.credentials(), Secure: !cfg.Insecure, Region: cfg.Region, Transport: cfg.Transport, MaxRetries: cfg.Retries,
	})
	if err != nil {
		return nil, fmt.Errorf("s3: endpoint %s: %w", cfg.Endpoint, err)
	}
	c := &Contents{core: minio.Core{Client: client}, cfg: cfg}
	if err := c.Ping(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Ping returns an error if the bucket does not exist or cannot be read.
func (c *Contents) Ping(ctx context.Context) error {
	switch found, err := c.core.BucketExists(ctx, c.cfg.Bucket); {
	case err != nil:
		return c.wrap(ctx, err, "open bucket")
	case !found:
		return a2a.Errorf(a2a.CodeUnavailable, "s3: bucket %s does not exist at %s: create it or choose another", c.cfg.Bucket, c.cfg.Endpoint)
	}
	return nil
}

// below returns the contents below a prefix within the prefix of c.
func (c *Contents) below(prefix string) *Contents {
	inner := *c
	inner.cfg.Prefix += prefix
	return &inner
}

// key returns the key of an object.
func (c *Contents) key(o blob.Object) string { return c.cfg.Prefix + o.Name }

// wrap wraps an error of the service with its code. Errors that have a code, and errors of
// the context, are returned unchanged.
func (c *Contents) wrap(ctx context.Context, err error, op string) error {
	var coded *a2a.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &coded):
		return err
	}
	code, text := a2a.CodeUnavailable, "the object store does not respond"
	switch response := minio.ToErrorResponse(err); {
	case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		text = "the object store denies access"
	case response.Code == minio.NoSuchBucket:
		text = "the bucket does not exist"
	case response.StatusCode == http.StatusInsufficientStorage:
		code, text = a2a.CodeExhausted, "the object store is full"
	case response.StatusCode != 0:
		text = "the object store failed"
	}
	return a2a.Wrap(code, fmt.Errorf("s3: %s: bucket %s at %s: %w", op, c.cfg.Bucket, c.cfg.Endpoint, err), "%s", text)
}
