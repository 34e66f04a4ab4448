// Package s3 stores blobs in a bucket of S3, or of a service with its API. To store the contents there,
// and the refs in another backend:
//
//	contents, err := s3.Open(ctx, s3.Config{Endpoint: "s3.eu-central-1.amazonaws.com", Bucket: "agents"})
//	...
//	blobs := blobdriver.New(blob.Config{}, blobsql.RefsOf(store), contents)
//
// To store the refs in the bucket too, without a database:
//
//	blobs := contents.Blobs(blob.Config{})
//
// The bucket needs no versioning and no lifecycle rule. A rule that removes incomplete
// multipart uploads after some days does no harm.
package s3
