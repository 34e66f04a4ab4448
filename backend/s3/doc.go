// Package s3 stores the contents of blobs as objects of S3, or of a service with its API. The
// refs of the blobs stay in another backend:
//
//	contents, err := s3.Open(ctx, s3.Config{Endpoint: "s3.eu-central-1.amazonaws.com", Bucket: "agents"})
//	...
//	blobs := blob.New(blob.Config{}, store.BlobRefs(), contents)
//
// The bucket needs no versioning and no lifecycle rule. A rule that removes incomplete
// multipart uploads after some days does no harm.
package s3
