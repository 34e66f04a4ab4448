// Package issuer verifies the access tokens of OAuth 2.0 and OpenID Connect issuers, as a resource server.
//
// # Concepts
//
// An [Issuer] verifies signed tokens (JWT, RFC 9068) with the issuer's keys, and opaque tokens by introspection
// (RFC 7662). It reads the issuer's metadata (OpenID Connect Discovery 1.0, RFC 8414) and keys (RFC 7517) in the
// background. A [Set] verifies the tokens of several issuers: the member iss of a JWT selects the issuer. All other
// tokens go to the issuers with introspection, in their order, until one accepts the token.
//
// # Principals
//
// The principal's id is NAME:u:SUB, or NAME:c:CLIENT if the token has no subject or the subject is the client. NAME is
// [Config.Name], so that a token never stands for the principal of another issuer or of another credential. Level and
// Permissions of the principal are empty: the caller derives them from Roles. A nil Permissions means everything, so
// the scopes are the only limit until then.
//
// # Scopes
//
// The scopes agent:read and agent:write of a token are [a2a.ScopeRead] and [a2a.ScopeWrite]. All other names keep
// their spelling. A token without the claims scope and scp has no scopes, so it may do nothing, with two exceptions.
// Azure's tokens for applications have no scp: their roles, which an administrator grants, are their scopes. And
// [Config.Unscoped] grants everything.
//
// # Access tokens and ID tokens
//
// An access token has the type at+jwt. Many issuers send the type JWT or no type, as for ID tokens. With
// [Config.PlainTypes] such a token must name its scopes or its client, and must not have claims that only ID tokens
// and logout tokens have.
//
// # Errors
//
// Errors are [a2a.Error] with a member reason in Data: missing, invalid_token, issuer, audience, type
// ([a2a.CodeUnauthenticated]), expired, not_yet_valid ([a2a.CodeCredentialsExpired]), signature, proof
// ([a2a.CodeInvalidSignature]), or issuer_unavailable ([a2a.CodeUnavailable]). They never contain parts of the token.
//
// # Concurrency
//
// All methods are safe for concurrent use. A token that was verified before costs about one hash until it expires or
// the issuer's keys change.
package issuer
