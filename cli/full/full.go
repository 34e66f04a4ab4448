// Package full has the parts of the command that need large libraries: PDF, Redis and S3.
package full

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/agents/summarizer/pdftext"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/backend/s3"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/store/blob"
	kept "github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/states"
)

// Parts returns the parts.
func Parts() cli.Parts {
	return cli.Parts{
		Reader: summarize.Reader{PDF: pdftext.Pages},
		Stores: map[string]cli.StoreOpener{
			"redis": {Check: checkRedis, Open: openRedis},
			"s3":    {Check: checkS3, Open: OpenS3},
		},
	}
}

func checkS3(url string) error {
	_, err := s3.ParseURL(url)
	return err
}

// OpenS3 opens blobs with their contents in a bucket, and their refs in the main store, or in the bucket
// if the URL says so.
func OpenS3(ctx context.Context, p cli.OpenParams) (cli.OpenedContracts, error) {
	cfg, err := s3.ParseURL(p.URL)
	if err != nil {
		return cli.OpenedContracts{}, err
	}
	contents, err := s3.Open(ctx, cfg)
	if err != nil {
		return cli.OpenedContracts{}, err
	}
	blobs := contents.Blobs(blob.Config{})
	if !cfg.RefsInBucket {
		if blobs, err = p.WithRefs(contents); err != nil {
			return cli.OpenedContracts{}, err
		}
	}
	return cli.OpenedContracts{Stores: []contract.Store{kept.Of(blobs)}, Ping: contents.Ping, Close: func() error { return nil }}, nil
}

var redisRule = regexp.MustCompile(`unexpected option|invalid database|no databases`)

func checkRedis(url string) error {
	err := redis.CheckURL(url)
	if err != nil && !redisRule.MatchString(err.Error()) { // the error may contain the password
		return errors.New("cannot be parsed: want redis://USER:PASSWORD@HOST:PORT/DATABASE, with special characters in the password as %XX")
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "redis: URL: "))
	}
	return nil
}

// openRedis opens transcripts and session states in Redis.
func openRedis(ctx context.Context, p cli.OpenParams) (cli.OpenedContracts, error) {
	s, err := redis.Open(ctx, redis.Config{URL: p.URL})
	if err != nil {
		return cli.OpenedContracts{}, err
	}
	var cfg memory.ShortTermConfig
	if p.Age != nil {
		cfg.TTL = p.Age(states.Retention)
	}
	short, err := s.ShortTerm(cfg)
	if err != nil {
		return cli.OpenedContracts{}, errors.Join(err, s.Close())
	}
	return cli.OpenedContracts{Stores: []contract.Store{transcripts.Of(s.History()), states.Of(short)}, Ping: s.Ping, Close: s.Close}, nil
}
