// Package auth identifies the callers of a server by the credentials that agent cards can declare, and decides what they
// may do. An [Auth] is the server's Authenticator and Authorizer.
//
// # Guarantees
//
//   - A request is accepted only if it satisfies one of the requirements: all of its schemes, with their scopes.
//   - Credentials that are not valid are never ignored, even if others in the same request would suffice.
//   - Facts about a caller come from its credentials, never from the content of a request.
//   - Errors have a stable code and a reason. They never contain credentials.
package auth
