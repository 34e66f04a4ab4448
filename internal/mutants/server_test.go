package mutants

// server are the mutants of the packages rpc and server.
var server = []mutant{
	// Package rpc.
	{
		defect: "streaming methods require no scope", file: "server/auth.go",
		old: "case !c.Principal.May(c.Method.Scope):", new: "case !c.Method.Streaming && !c.Principal.May(c.Method.Scope):",
		test: "^TestMethodsRequireTheirScope$",
	},
	{
		defect: "methods of features that must be configured require no scope", file: "server/auth.go",
		old: "case !c.Principal.May(c.Method.Scope):", new: "case !c.Principal.May(c.Method.Scope) && c.Method.Permission[:3] != \"web\":",
		test: "^TestMethodsRequireTheirScope$",
	},
	{
		defect: "the first interceptor is innermost", file: "rpc/table.go",
		old: "range slices.Backward(cfg.Interceptors)", new: "range slices.All(cfg.Interceptors)",
		test: "^TestInterceptorsSurroundCalls$",
	},
	{
		defect: "the error of a method that is off is the one of A2A 0.3 in each version", file: "rpc/table.go",
		old: "off = cmp.Or(m.OffV10, off)", new: "off = cmp.Or(off, m.OffV10)",
		test: "^TestMethodsOfCapabilitiesThatAreOff$", in: "server",
	},
	{
		defect: "a method of an older version than the announced one is found", file: "rpc/version.go",
		old: "slices.Compare(parseVersion(own), parseVersion(announced.Version())) < 0", new: "slices.Compare(parseVersion(own), parseVersion(announced.Version())) > 1",
		test: "^TestSelectChecksTheAnnouncedVersion$",
	},
	{
		defect: "the minor version before 1.0 does not matter", file: "rpc/version.go",
		old: "	if numbers[0] > 0 {\n", new: "	if numbers[0] >= 0 {\n",
		test: "^TestSelectChecksTheAnnouncedVersion$",
	},
	{
		defect: "a version may have more than three numbers", file: "rpc/version.go",
		old: "	if len(parts) > 3 {\n", new: "	if len(parts) > 4 {\n",
		test: "^TestSelectChecksTheAnnouncedVersion$",
	},
	{
		defect: "the error of an unknown method has the default version", file: "rpc/table.go",
		old: "c.Codec = t.Call(c.Version).Codec", new: "c.Codec = t.codecs[0]",
		test: "^TestSelectChecksTheAnnouncedVersion$",
	},
	{
		defect: "a request without the member jsonrpc is valid", file: "rpc/request.go",
		old: "	if string(version) != `\"2.0\"` {\n", new: "	if len(version) > 0 && string(version) != `\"2.0\"` {\n",
		test: "^TestEnvelope$", in: "server",
	},
	{
		defect: "an id of the maximum length is rejected", file: "rpc/request.go",
		old: "case len(id) > maxID:", new: "case len(id) >= maxID:",
		test: "^TestParseLimitsTheID$",
	},
	{
		defect: "an id may be a boolean", file: "rpc/request.go",
		old: "case '{', '[', 't', 'f':", new: "case '{', '[':",
		test: "^TestEnvelope$", in: "server",
	},
	{
		defect: "an id with a lone surrogate is valid", file: "rpc/request.go",
		old: "wire.UnmarshalStrict(id, &s)", new: "wire.Unmarshal(id, &s)",
		test: "^TestAmbiguousRequestsAreRefused$", in: "server",
	},
	{
		defect: "a batch of the maximum number of requests is rejected", file: "rpc/request.go",
		old: "	case n > limit:\n", new: "	case n >= limit:\n",
		test: "^TestParseBatch$",
	},
	{
		defect: "the cause of an error is sent to the caller", file: "rpc/response.go",
		old: "return &a2a.Error{Code: e.Code, Message: e.Message, Data: e.Data}, e.Err != nil", new: "return &a2a.Error{Code: e.Code, Message: e.Error(), Data: e.Data}, e.Err != nil",
		test: "^TestErrorOf$",
	},
	{
		defect: "a timeout is not logged", file: "rpc/response.go",
		old: "the request timed out; retry later\"), true", new: "the request timed out; retry later\"), false",
		test: "^TestErrorOf$",
	},
	{
		defect: "an invalid member of a body is an internal error", file: "rpc/response.go",
		old: "case errors.As(err, &w) && !w.Syntax:\n		return a2a.Invalid", new: "case errors.As(err, &w) && w.Syntax:\n		return a2a.Invalid",
		test: "^TestREST$", in: "server",
	},

	// Authentication.
	{
		defect: "a principal may have any id", file: "server/auth.go",
		old: "		err = p.Check()\n", new: "",
		test: "^TestPrincipalsWithInvalidIDsAreRejected$",
	},
	{
		defect: "JSON-RPC skips the second step of authentication", file: "server/jsonrpc/handler.go",
		old: "err := x.VerifyBody(body.B); err != nil {", new: "err := error(nil); err != nil {",
		test: "^TestTheSecondStepOfAuthenticationSeesTheBody$", in: "server",
	},
	{
		defect: "HTTP+JSON skips the second step of authentication", file: "server/rest/handler.go",
		old: "err := x.VerifyBody(body.B); err != nil {", new: "err := error(nil); err != nil {",
		test: "^TestTheSecondStepOfAuthenticationSeesTheBody$", in: "server",
	},
	{
		defect: "routes that are no methods need no authorization", file: "server/server.go",
		old: "m.Value.operation != nil && !s.authorizeRoute", new: "false && !s.authorizeRoute",
		test: "^TestTheAuthorizerDecidesAboutEveryOperation$",
	},
	{
		defect: "a call that is repeated is authorized again", file: "server/auth.go",
		old: "			c.Authorized = true\n", new: "",
		test: "^TestAnAuthorizerReplacesThePrincipal$",
	},
	{
		defect: "streams outlive their credentials", file: "server/internal/exchange/stream.go",
		old: "	defer s.watchAccess(ctx, &x.Principal, cancel)()\n", new: "",
		test: "^TestStreamsEndWithTheAccessOfTheirPrincipal$", in: "server",
	},
	{
		defect: "a rejected caller gets the status 200 over JSON-RPC", file: "server/internal/exchange/reply.go",
		old: "	case errors.As(err, new(*Refusal)):\n", new: "	case false:\n",
		test: "^TestTheAuthorizerDecidesAboutEveryOperation$", in: "server",
	},
	{
		defect: "a caller that is not permitted gets a challenge", file: "server/auth.go",
		old: "HTTPStatus() == http.StatusUnauthorized {", new: "HTTPStatus() >= http.StatusUnauthorized {",
		test: "^TestAuthenticatorDeterminesPrincipalAndStatus$",
	},
	{
		defect: "of two Authorization headers the first one counts", file: "server/tokens.go",
		old: "if len(credentials) == 1 && strings", new: "if strings",
		test: "^TestTwoAuthorizationHeadersAreRejected$",
	},
	{
		defect: "the scheme Bearer is case-sensitive", file: "server/tokens.go",
		old: "strings.EqualFold(scheme, \"Bearer\")", new: "scheme == \"Bearer\"",
		test: "^TestAuthentication$",
	},
	{
		defect: "a token has all scopes", file: "server/tokens.go",
		old: "sha256.Sum256([]byte(token.Token)), token.Principal}", new: "sha256.Sum256([]byte(token.Token)), a2a.Principal{ID: token.Principal.ID}}",
		test: "^TestLinksThatAreNotValidAreNotFound$",
	},
	{
		defect: "invalid tokens replace the accepted ones", file: "server/tokens.go",
		old: "	if errs := checkTokens(list); len(errs) > 0 {\n", new: "	if errs := checkTokens(list); len(errs) > 0 {\n		t.accepted.Store(new([]hashedToken))\n",
		test: "^TestInvalidTokensDoNotReplaceTheAcceptedOnes$",
	},
	{
		defect: "the challenge does not name the error of a token", file: "server/tokens.go",
		old: "		return `Bearer realm=\"holdfast\", error=\"invalid_token\"`\n", new: "		return `Bearer realm=\"holdfast\"`\n",
		test: "^TestChallengeNamesTheErrorOfATokenOnly$",
	},
	{
		defect: "a token may contain spaces", file: "server/tokens.go",
		old: "return r <= ' ' || r > '~'", new: "return r < ' ' || r > '~'",
		test: "^TestTokensArePrintable$",
	},
	{
		defect: "the log has the tokens", file: "server/tokens.go",
		old: "return \"token of \" + t.Principal.ID", new: "return \"token \" + t.Token + \" of \" + t.Principal.ID",
		test: "^TestLogsHoldNoSecrets$",
	},

	// Browsers.
	{
		defect: "a page may read responses if its origin starts with a listed origin", file: "server/cors.go",
		old: "!c.any && !slices.Contains(c.origins, origin) {", new: "!c.any && !slices.ContainsFunc(c.origins, func(o string) bool { return strings.HasPrefix(origin, o) }) {",
		test: "^TestOriginsAreComparedExactly$",
	},
	{
		defect: "caches share responses among origins", file: "server/cors.go",
		old: "	h.Add(\"Vary\", \"Origin\")\n	origin := x.Request.Header.Get(\"Origin\")\n", new: "	origin := x.Request.Header.Get(\"Origin\")\n",
		test: "^TestOriginsAreComparedExactly$",
	},
	{
		defect: "a page behind DNS rebinding may send PATCH", file: "server/cors.go",
		old: "case http.MethodPost, http.MethodPatch, http.MethodDelete:", new: "case http.MethodPost, http.MethodDelete:",
		test: "^TestRESTRejectsDNSRebinding$",
	},
	{
		defect: "a page behind DNS rebinding may send HEAD", file: "server/cors.go",
		old: "case http.MethodGet, http.MethodHead:", new: "case http.MethodGet:",
		test: "^TestDNSRebindingIsRejected$",
	},
	{
		defect: "a host name that ends with the server's own name is its own", file: "server/cors.go",
		old: "!local && !slices.Contains(c.hosts, host)", new: "!local && !slices.ContainsFunc(c.hosts, func(own string) bool { return strings.HasSuffix(host, own) })",
		test: "^TestDNSRebindingIsRejected$",
	},
	{
		defect: "a host name that ends with localhost is local", file: "server/cors.go",
		old: "strings.HasSuffix(host, \".localhost\")", new: "strings.HasSuffix(host, \"localhost\")",
		test: "^TestDNSRebindingIsRejected$",
	},
	{
		defect: "each OPTIONS request is a preflight", file: "server/cors.go",
		old: "x.Request.Method != http.MethodOptions || x.Request.Header.Get(\"Access-Control-Request-Method\") == \"\"", new: "x.Request.Method != http.MethodOptions",
		test: "^TestOriginsAreComparedExactly$",
	},
	{
		defect: "a preflight requires a token", file: "server/server.go",
		old: "!s.admit(x, m.Value.probe) || !m.Value.public && !s.authenticate(x)", new: "!m.Value.public && !s.authenticate(x) || !s.admit(x, m.Value.probe)",
		test: "^TestPreflightAllowsTheHeadersOfTheServer$",
	},
	{
		defect: "pages cannot send the header for links to files", file: "server/cors.go",
		old: "Content-Type, Holdfast-Files, Holdfast-Owner, Idempotency-Key", new: "Content-Type, Holdfast-Owner, Idempotency-Key",
		test: "^TestPreflightAllowsTheHeadersOfTheServer$",
	},
	{
		defect: "pages cannot read the challenge", file: "server/cors.go",
		old: "\"X-Request-Id, WWW-Authenticate, Retry-After", new: "\"X-Request-Id, Retry-After",
		test: "^TestPreflightAllowsTheHeadersOfTheServer$",
	},
	{
		defect: "load balancers need the server's host name for probes", file: "server/cors.go",
		old: "		if probe {\n", new: "		if probe && origin != \"\" {\n",
		test: "^TestDNSRebindingIsRejected$",
	},
	{
		defect: "an origin may have a path", file: "server/config.go",
		old: " || u.Scheme+\"://\"+u.Host != origin)", new: ")",
		test: "^TestConfiguredOriginsHaveNoPath$",
	},

	// Files.
	{
		defect: "a file needs no scope", file: "server/file.go",
		old: "if !s.authorizeRoute(x, &operationFile) {", new: "if false {",
		test: "^TestLinksThatAreNotValidAreNotFound$",
	},
	{
		defect: "pages of other sites learn the link of a file", file: "server/file.go",
		old: "	h.Set(\"Referrer-Policy\", \"no-referrer\")\n", new: "",
		test: "^TestFileRequests$",
	},
	{
		defect: "caches share a file among callers", file: "server/file.go",
		old: "	h.Set(\"Vary\", \"Authorization\")\n", new: "",
		test: "^TestFileRequests$",
	},
	{
		defect: "the name of a file has no limit", file: "server/file.go",
		old: "len(runes) > maxName {", new: "len(runes) > 100*maxName {",
		test: "^TestNamesOfFilesAreSafe$",
	},
	{
		defect: "the content of a file is not verified", file: "server/file.go",
		old: "if f.r = r; f.at == 0 {", new: "if f.r = r; f.at < 0 {",
		test: "^TestDamagedFilesLeaveTheTaskReadable$",
	},
	{
		defect: "a request for several parts of a file gets parts", file: "server/file.go",
		old: "		r.Header.Del(\"Range\")\n", new: "",
		test: "^TestFileRequests$",
	},

	// The server.
	{
		defect: "a failed list keeps its slot", file: "server/lists.go",
		old: "		defer slot.Release()\n		return next(ctx, c)\n", new: "		result, err := next(ctx, c)\n		if err == nil {\n			slot.Release()\n		}\n		return result, err\n",
		test: "^TestFailedCallsReleaseTheirSlots$",
	},
	{
		defect: "two requests get the same id", file: "server/requestid.go",
		old: "ids.next.Add(1)", new: "ids.next.Load()",
		test: "^TestRequestIDs$",
	},
	{
		defect: "the health of the store is checked once", file: "server/status.go",
		old: "if h.checkedAt.IsZero() || time.Since(h.checkedAt) >= healthTTL {", new: "if h.checkedAt.IsZero() {",
		test: "^TestHealthFollowsTheStore$",
	},
	{
		defect: "a health check ends with the client that requested it", file: "server/status.go",
		old: "context.WithoutCancel(x.Request.Context())", new: "x.Request.Context()",
		test: "^TestCanceledHealthCheckDoesNotAffectOthers$",
	},
	{
		defect: "caches keep the health of the server", file: "server/status.go",
		old: "	x.Header().Set(\"Cache-Control\", \"no-store\")\n", new: "",
		test: "^TestHealthFollowsTheStore$",
	},
	{
		defect: "a server that stops is ready", file: "server/status.go",
		old: "s.stopping.Err() != nil || s.cfg.Engine.Stopping()", new: "s.stopping.Err() != nil",
		test: "^TestStoppingServerRejectsNewWork$",
	},
	{
		defect: "the information of an agent lists methods that are off", file: "server/status.go",
		old: "		if m.Off == \"\" {\n", new: "		if m.Off != a2a.CodeNoExtendedCard {\n",
		test: "^TestEveryMethodHasABinding$",
	},
	{
		defect: "blocking requests end when the server starts to stop", file: "server/serve.go",
		old: "time.AfterFunc(s.cfg.StopGrace, s.endGrace)", new: "s.endGrace()",
		test: "^TestServeAnswersBlockingRequestsAfterStopGrace$",
	},
	{
		defect: "requests end with the context of Serve", file: "server/serve.go",
		old: "	base := context.WithoutCancel(ctx)\n", new: "	base := ctx\n",
		test: "^TestServe",
	},
	{
		defect: "a response ends as if it were complete after a panic", file: "server/server.go",
		old: "		if x.Status != 0 {\n", new: "		if x.Status >= 300 {\n",
		test: "^TestPanicAbortsAStreamThatHasStarted$",
	},
	{
		defect: "interceptors see no call that the server rejects", file: "server/transport.go",
		old: "slices.Concat(s.cfg.Requests.Interceptors, []rpc.Interceptor{s.authorize, requireExtensions(s.cfg.Card.Capabilities.Extensions), s.lists.intercept})", new: "slices.Concat([]rpc.Interceptor{s.authorize, requireExtensions(s.cfg.Card.Capabilities.Extensions), s.lists.intercept}, s.cfg.Requests.Interceptors)",
		test: "^TestInterceptorsSeeCallsThatTheServerRejects$",
	},
	{
		defect: "a tenant may hide a path of the server", file: "server/server.go",
		old: "c.Tenant != \"\" && s.routes.Reserved(c.Tenant)", new: "c.Tenant == \"/\" && s.routes.Reserved(c.Tenant)",
		test: "^TestTenantsDoNotHidePaths$",
	},
	{
		defect: "one of the required extensions suffices", file: "server/extensions.go",
		old: "		return func(ctx context.Context, c *rpc.Call) (any, error) {\n", new: "		return func(ctx context.Context, c *rpc.Call) (any, error) {\n			if slices.ContainsFunc(required, func(uri string) bool { return slices.Contains(c.Extensions, uri) }) {\n				return next(ctx, c)\n			}\n",
		test: "^TestEachRequiredExtensionMustBeRequested$",
	},
	{
		defect: "an extension that the card does not declare is activated", file: "server/extensions.go",
		old: "slices.ContainsFunc(s.card.Capabilities.Extensions, declared) && !slices", new: "(slices.ContainsFunc(s.card.Capabilities.Extensions, declared) || uri != \"\") && !slices",
		test: "^TestExtensionsAreActivatedOnRequest$",
	},
	{
		defect: "the second header with extensions deactivates the extensions of the first", file: "server/extensions.go",
		old: "x.Extended = x.Extended || slices", new: "x.Extended = slices",
		test: "^TestMembersOfExtensionsAreSentOnRequest$",
	},

	// Package exchange.
	{
		defect: "the ETag does not depend on the media type", file: "server/internal/exchange/exchange.go",
		old: "sha256.Sum256(append([]byte(h[\"Content-Type\"][0]), body...))", new: "sha256.Sum256(body)",
		test: "^TestCachesKeepExtendedCardsApart$", in: "server",
	},
	{
		defect: "caches share responses among media types", file: "server/internal/exchange/exchange.go",
		old: "		h.Add(\"Vary\", \"Accept\")\n", new: "",
		test: "^TestCachesKeepExtendedCardsApart$", in: "server",
	},
	{
		defect: "caches share the extended card among callers", file: "server/internal/exchange/reply.go",
		old: "		r.x.Header().Add(\"Vary\", \"Authorization\")\n", new: "",
		test: "^TestCachesKeepExtendedCardsApart$", in: "server",
	},
	{
		defect: "the response to a POST is cacheable", file: "server/internal/exchange/reply.go",
		old: "r.call.Method.Cacheable && r.x.Request.Method != http.MethodPost", new: "r.call.Method.Cacheable",
		test: "^TestCachesKeepExtendedCardsApart$", in: "server",
	},
	{
		defect: "links have the address of no request", file: "server/internal/exchange/exchange.go",
		old: "	c.Origin, c.RequestID = x.Origin, x.ID\n", new: "	c.RequestID = x.ID\n",
		test: "^TestAddressesHaveTheSchemeOfTheRequest$", in: "server",
	},
	{
		defect: "headers of every proxy are trusted", file: "server/origin.go",
		old: "if !p.trusts(r.RemoteAddr) {", new: "if false {",
		test: "^TestCardHasTheAddressThatATrustedProxyNames$", in: "server",
	},
	{
		defect: "one key identifies requests of several methods", file: "server/internal/exchange/exchange.go",
		old: "	text.WriteString(name)\n", new: "",
		test: "^TestIdempotencyKey$", in: "server",
	},
	{
		defect: "white space distinguishes repeated requests", file: "server/internal/exchange/exchange.go",
		old: "_ = json.Compact(text, params)", new: "json.HTMLEscape(text, params)",
		test: "^TestIdempotencyKey$", in: "server",
	},
	{
		defect: "of several announced versions the first one counts", file: "server/internal/exchange/exchange.go",
		old: "strings.Join(slices.Compact(slices.Clone(x.Request.Header[\"A2a-Version\"])), \", \")", new: "strings.Join(slices.Clone(x.Request.Header[\"A2a-Version\"])[:min(1, len(x.Request.Header[\"A2a-Version\"]))], \", \")",
		test: "^TestSeveralVersionsAreNoVersion$", in: "server",
	},
	{
		defect: "a body of the maximum size is rejected", file: "server/internal/exchange/body.go",
		old: "if x.Request.ContentLength > b.Max {", new: "if x.Request.ContentLength >= b.Max {",
		test: "^TestContentTypeAndSize$", in: "server",
	},
	{
		defect: "a body of unknown length has no limit", file: "server/internal/exchange/body.go",
		old: "http.MaxBytesReader(x.ResponseWriter, x.Request.Body, b.Max)", new: "x.Request.Body",
		test: "^TestContentTypeAndSize$", in: "server",
	},
	{
		defect: "a compressed body is read as JSON", file: "server/internal/exchange/body.go",
		old: "coding != \"\" && !strings", new: "coding == \"identity\" && !strings",
		test: "^TestContentTypeAndSize$", in: "server",
	},
	{
		defect: "a body may have each media type that ends with +json", file: "server/internal/exchange/body.go",
		old: "strings.HasPrefix(kind, \"application/\") && strings.HasSuffix", new: "strings.HasSuffix",
		test: "^TestContentTypeAndSize$", in: "server",
	},
	{
		defect: "a body that cannot be read keeps its memory", file: "server/internal/exchange/body.go",
		old: "		x.Body.Release()\n", new: "",
		test: "^TestResponsesReleaseTheirMemory$", in: "server",
	},
	{
		defect: "a request without free memory does not say when to retry", file: "server/internal/exchange/body.go",
		old: "		x.Header().Set(\"Retry-After\", \"1\")\n", new: "",
		test: "^TestRequestsWithoutMemoryNameTheTimeToRetry$", in: "server",
	},
	{
		defect: "a failed read keeps its slot", file: "server/internal/exchange/reply.go",
		old:  "func (r *Reply) read(ctx context.Context) (*Buffer, error) {\n	owner := r.x.Principal.ID\n	slot := r.of.reads.Hold(owner)\n	defer slot.Release()\n",
		new:  "func (r *Reply) read(ctx context.Context) (_ *Buffer, err error) {\n	owner := r.x.Principal.ID\n	slot := r.of.reads.Hold(owner)\n	defer func() {\n		if err == nil {\n			slot.Release()\n		}\n	}()\n",
		test: "^TestFailedCallsReleaseTheirSlots$", in: "server",
	},
	{
		defect: "a stream keeps its slot for reading while it waits", file: "server/internal/exchange/reply.go",
		old: "	err := r.reserveEncoding(ctx, e)\n	r.readSlot.Release()\n", new: "	err := r.reserveEncoding(ctx, e)\n",
		test: "^TestIdleStreamsDoNotDelayReads$", in: "server",
	},
	{
		defect: "an overloaded server does not say when to retry", file: "server/internal/exchange/reply.go",
		old: "	h.Set(\"Retry-After\", \"1\")\n", new: "",
		test: "^TestStreamLimit$", in: "server",
	},
	{
		defect: "an owner may have all streams of a server with owners", file: "server/internal/exchange/stream.go",
		old: "	if !shared {\n", new: "	if shared {\n",
		test: "^TestOwnerMayUseHalfOfTheStreams$", in: "server",
	},
	{
		defect: "a stream that fails at its start keeps its slot", file: "server/internal/exchange/stream.go",
		old: "	result, err := x.run(ctx, c)\n	if err != nil {\n", new: "	result, err := x.run(ctx, c)\n	if err != nil {\n		slot = s.slots.Hold(x.Principal.ID)\n",
		test: "^TestFailedCallsReleaseTheirSlots$", in: "server",
	},
	{
		defect: "a stopping server accepts streams", file: "server/internal/exchange/stream.go",
		old: "	if s.stopping.Err() != nil {\n", new: "	if s.stopping.Err() != nil && c.Method.Idempotent {\n",
		test: "^TestRESTOverloadAndShutdown$", in: "server",
	},
	{
		defect: "streams do not end when the server stops", file: "server/internal/exchange/stream.go",
		old: "	defer context.AfterFunc(s.stopping, func() { cancel(nil) })()\n", new: "",
		test: "^TestServeStopsGracefully$", in: "server",
	},
	{
		defect: "each event is sent on its own", file: "server/internal/exchange/stream.go",
		old: "if !item.More || len(w.out.B) >= flushAt {", new: "if len(w.out.B) > 0 {",
		test: "^TestStreamStartsWithAllCommittedEvents$", in: "server",
	},
	{
		defect: "an event has the id of the next event", file: "server/internal/exchange/stream.go",
		old: "strconv.AppendInt(b, item.Seq, 10)", new: "strconv.AppendInt(b, item.Seq+1, 10)",
		test: "^TestStreamSendsTaskThenEvents$", in: "server",
	},
	{
		defect: "the error of a stream over HTTP+JSON has no type", file: "server/internal/exchange/stream.go",
		old: "if f, ok := w.r.format.(ErrorEventer); ok {", new: "if f, ok := w.r.format.(ErrorEventer); ok && !w.started {",
		test: "^TestRESTStreamsEndWithAnErrorEvent$", in: "server",
	},

	// The transports.
	{
		defect: "a request keeps the memory of its body", file: "server/jsonrpc/handler.go",
		old: "	defer x.Body.Release()\n	if err := x.VerifyBody", new: "	if err := x.VerifyBody",
		test: "^TestResponsesReleaseTheirMemory$", in: "server",
	},
	{
		defect: "a notification gets a response", file: "server/jsonrpc/handler.go",
		old: "case c.notification():", new: "case c.notification() && false:",
		test: "^TestNotificationsGetNoResponse$", in: "server",
	},
	{
		defect: "a notification is not executed", file: "server/jsonrpc/handler.go",
		old: "	if c.Method.Idempotent {\n", new: "	if c.Method.Idempotent || true {\n",
		test: "^TestNotificationsGetNoResponse$", in: "server",
	},
	{
		defect: "a stream is executed without an id", file: "server/jsonrpc/handler.go",
		old: "c.notification() && c.Method.Streaming", new: "c.notification() && c.Method.Streaming && false",
		test: "^TestNotificationsGetNoResponse$", in: "server",
	},
	{
		defect: "a notification in a batch gets a response", file: "server/jsonrpc/batch.go",
		old: "if err == nil && c.notification() {", new: "if err == nil && c.notification() && false {",
		test: "^TestNotificationsGetNoResponse$", in: "server",
	},
	{
		defect: "a request that waits keeps the memory of its body", file: "server/jsonrpc/handler.go",
		old: "	c.OnStored = x.Body.Release\n", new: "",
		test: "^TestWaitingRequestsHoldNoMemory$", in: "server",
	},
	{
		defect: "the id of a request refers to memory of another one", file: "server/jsonrpc/handler.go",
		old: "	c.ID = bytes.Clone(c.ID)\n", new: "",
		test: "^TestEnvelope$", in: "server",
	},
	{
		defect: "a client that accepts JSON first gets an event", file: "server/jsonrpc/handler.go",
		old: "return events && !objectFirst", new: "return events",
		test: "^TestErrorsAreEventsForClientsThatExpectStreams$", in: "server",
	},
	{
		defect: "a large body of a caller without authorization is read", file: "server/jsonrpc/handler.go",
		old: "exchange.Bodies{Max: 64 << 10}", new: "exchange.Bodies{Max: 64 << 20}",
		test: "^TestUnauthenticatedResponsesHaveTheIDOfTheRequest$", in: "server",
	},
	{
		defect: "an idempotency key applies to each request of a batch", file: "server/jsonrpc/batch.go",
		old: "if err == nil && x.Request.Header.Get(\"Idempotency-Key\") != \"\" {", new: "if err == nil && len(items) > h.MaxBatch {",
		test: "^TestBatch$", in: "server",
	},
	{
		defect: "each response of a batch may have the maximum size", file: "server/jsonrpc/batch.go",
		old: "	w.remaining -= int64(len(response.B))\n", new: "",
		test: "^TestBatchResponsesShareOneSizeLimit$", in: "server",
	},
	{
		defect: "each request of a batch has a timeout of its own", file: "server/jsonrpc/batch.go",
		old: "	response, err := reply.Run(w.ctx)\n", new: "	ctx, cancel := context.WithTimeout(w.x.Request.Context(), w.h.BatchTimeout)\n	defer cancel()\n	response, err := reply.Run(ctx)\n",
		test: "^TestBatchHasOneTimeout$", in: "server",
	},
	{
		defect: "a large batch response has no media type", file: "server/jsonrpc/batch.go",
		old: "		w.x.Header()[\"Content-Type\"] = exchange.JSONType\n", new: "",
		test: "^TestBatchResponsesShareOneSizeLimit$", in: "server",
	},
	{
		defect: "a response of a batch keeps its memory", file: "server/jsonrpc/batch.go",
		old: "	defer reply.Release()\n", new: "",
		test: "^TestResponsesReleaseTheirMemory$", in: "server",
	},
	{
		defect: "a request over HTTP+JSON keeps the memory of its body", file: "server/rest/handler.go",
		old: "		defer x.Body.Release()\n", new: "",
		test: "^TestResponsesReleaseTheirMemory$", in: "server",
	},
	{
		defect: "a request over HTTP+JSON that waits keeps the memory of its body", file: "server/rest/handler.go",
		old: "		c.OnStored = x.Body.Release\n", new: "",
		test: "^TestWaitingRequestsHoldNoMemory$", in: "server",
	},
	{
		defect: "an error over HTTP+JSON does not say when to retry", file: "server/rest/handler.go",
		old: "		c.x.Header().Set(\"Retry-After\", \"1\")\n", new: "",
		test: "^TestRetryableErrorsOfRESTNameTheTimeToRetry$", in: "server",
	},
	{
		defect: "an anonymous caller gets no challenge for the extended card", file: "server/rest/handler.go",
		old: "	x.Header().Set(\"WWW-Authenticate\", h.Challenge(x))\n", new: "",
		test: "^TestAnonymousCallersHaveNoExtendedCard$", in: "server",
	},
	{
		defect: "HEAD opens a stream", file: "server/rest/handler.go",
		old: "c.Method.Streaming && r.Method == http.MethodHead", new: "!c.Method.Streaming && r.Method == http.MethodHead",
		test: "^TestRESTHeaders$", in: "server",
	},
	{
		defect: "the body decides where it differs from the path", file: "server/rest/params.go",
		old: "} else if !equal(value, other) {\n			return a2a.Invalid(camel", new: "} else if len(value) == 0 {\n			return a2a.Invalid(camel",
		test: "^TestREST$", in: "server",
	},
	{
		defect: "a query parameter with several values has the first one", file: "server/rest/params.go",
		old: "	if len(values) > 1 {\n", new: "	if len(values) > 9 {\n",
		test: "^TestREST$", in: "server",
	},
	{
		defect: "a path that starts like the one of HTTP+JSON is one", file: "server/rest/routes.go",
		old: "strings.HasPrefix(path+\"/\", h.Base+\"/\")", new: "strings.HasPrefix(path, h.Base)",
		test: "^TestRefusalsHaveTheFormOfTheRequest$", in: "server",
	},

	// Methods.
	{
		defect: "a blocking request waits without a limit", file: "server/internal/methods/methods.go",
		old: "context.WithTimeout(ctx, m.cfg.BlockingTimeout)", new: "context.WithTimeout(ctx, 2*m.cfg.BlockingTimeout)",
		test: "^TestBlockingTimeout$", in: "server",
	},
	{
		defect: "a message answers a request with a webhook", file: "server/internal/methods/methods.go",
		old: "p.Message.TaskID == \"\" && (p.Configuration == nil || p.Configuration.PushNotificationConfig == nil)", new: "p.Message.TaskID == \"\"",
		test: "^TestSendReturnsTheTaskIfAMessageIsNotEnough$", in: "server",
	},
	{
		defect: "Last-Event-ID may have a sign", file: "server/internal/methods/methods.go",
		old: "n < 0 || header[0] == '+'", new: "n < 0",
		test: "^TestResubscribeReplaysMissedEvents$", in: "server",
	},
	{
		defect: "a resumed stream repeats the last event", file: "server/internal/methods/methods.go",
		old: "	return &n, nil\n", new: "	n = max(n-1, 0)\n	return &n, nil\n",
		test: "^TestResubscribeReplaysMissedEvents$", in: "server",
	},
	{
		defect: "a deleted task that was created again is read from the cache", file: "server/internal/methods/readcache.go",
		old: "if err == nil && now.Same(cached.version) {", new: "if err == nil && now.Seq == cached.version.Seq {",
		test: "^TestReadCacheDistinguishesTasksWithTheSameID$", in: "server",
	},
	{
		defect: "a deleted task that was created again is listed from the cache", file: "server/internal/methods/readcache.go",
		old: "if e == nil || !outline.Version().Same(e.version) {", new: "if e == nil || outline.Version().Seq != e.version.Seq {",
		test: "^TestReadCacheDistinguishesTasksWithTheSameID$", in: "server",
	},
	{
		defect: "the cache ignores whether artifacts were requested", file: "server/internal/methods/readcache.go",
		old: "explicit: historyLength != nil, artifacts: !read.OmitArtifacts}", new: "explicit: historyLength != nil}",
		test: "^TestReadCacheReturnsIdenticalResponses$", in: "server",
	},
	{
		defect: "links in cached tasks expire", file: "server/internal/methods/readcache.go",
		old: " && !fileref.TaskContains(t)", new: " && (!fileref.TaskContains(t) || t.Status.State == a2a.StateCompleted)",
		test: "^TestFilesOfAllViews$", in: "server",
	},
	{
		defect: "the cache grows without limit", file: "server/internal/methods/readcache.go",
		old: "c.bytes > c.limit; {", new: "c.bytes > 8*c.limit; {",
		test: "^TestReadCacheIsBounded$", in: "server",
	},
	{
		defect: "the average of ratings counts feedback without a rating", file: "server/internal/methods/convert.go",
		old: "	for rating := 1; rating", new: "	for rating := 0; rating",
		test: "^TestTranscripts$", in: "server",
	},
	{
		defect: "the files of a page are inline", file: "server/internal/methods/files.go",
		old: "Base: m.base(c), Links: true})", new: "Base: m.base(c), Links: c.FileLinks})",
		test: "^TestFilesOfAllViews$", in: "server",
	},

	// Agent cards.
	{
		defect: "an anonymous caller gets the extended card", file: "server/internal/cards/cards.go",
		old: "	if call.Principal.ID == a2a.Anonymous {\n", new: "	if call.Principal.ID == \"\" {\n",
		test: "^TestAnonymousCallersHaveNoExtendedCard$", in: "server",
	},
	{
		defect: "the extended card of a caller changes the public one", file: "server/internal/cards/cards.go",
		old: "copyCard(c.cfg.Card)", new: "c.cfg.Card",
		test: "^TestExtendedCardDoesNotChangeThePublicOne$", in: "server",
	},
	{
		defect: "the extended card of a caller shares maps with the public one", file: "server/internal/cards/copy.go",
		old: "case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:\n		if v.IsNil() {", new: "case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:\n		if v.IsNil() || v.Kind() == reflect.Map {",
		test: "^TestExtendedCardDoesNotChangeThePublicOne$", in: "server",
	},
	{
		defect: "the card has the address of the first request", file: "server/internal/cards/cards.go",
		old: "	key := located{f, cmp.Or(c.cfg.Card.URL, url)}\n", new: "	key := located{f, c.cfg.Card.URL}\n",
		test: "^TestCardHasTheHostOfTheRequest$", in: "server",
	},
	{
		defect: "the card of a request over TLS has the scheme http", file: "server/origin.go",
		old: "Secure: r.TLS != nil", new: "Secure: false",
		test: "^TestAddressesHaveTheSchemeOfTheRequest$", in: "server",
	},
	{
		defect: "the version 1 gets the union card", file: "server/internal/cards/serve.go",
		old: "version == \"1\" || strings.HasPrefix(version, \"1.\")", new: "strings.HasPrefix(version, \"1.\")",
		test: "^TestStrictCardHasMembersOfV10Only$", in: "server",
	},
	{
		defect: "caches share the card among versions", file: "server/internal/cards/serve.go",
		old: "	x.Header().Add(\"Vary\", \"A2A-Version\")\n", new: "",
		test: "^TestCardsAreCacheable$", in: "server",
	},
	{
		defect: "the card of A2A 0.3 lists interfaces of 1.0", file: "server/internal/cards/cards.go",
		old: "if other.ProtocolVersion == \"\" || strings.HasPrefix(other.ProtocolVersion, \"0.\") {", new: "if other.Transport != \"\" {",
		test: "^TestCardListsTheInterfacesOfBothVersions$", in: "server",
	},

	// Paths.
	{
		defect: "a segment of a path is decoded before it is split", file: "server/internal/router/router.go",
		old: "strings.CutPrefix(u.EscapedPath(), \"/\")", new: "strings.CutPrefix(u.Path, \"/\")",
		test: "^TestREST$", in: "server",
	},
	{
		defect: "a tenant may have the name of a path of the server", file: "server/internal/router/router.go",
		old: "if next = n.literals[name]; next != nil || name == \"\" {", new: "if next = n.literals[name]; next != nil && n.variable == nil || name == \"\" {",
		test: "^TestRESTTenants$", in: "server",
	},
	{
		defect: "a verb is the text after the first colon", file: "server/internal/router/router.go",
		old: "strings.LastIndexByte(segment, ':')", new: "strings.IndexByte(segment, ':')",
		test: "^TestMatch$",
	},
}
