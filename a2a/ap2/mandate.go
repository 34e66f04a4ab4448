package ap2

// IntentMandate is what a user wants to buy. AP2 0.1.0 gives it neither an id nor
// a signature.
type IntentMandate struct {
	// UserCartConfirmationRequired wants the user to approve the cart. It must be
	// true as long as intents are not signed.
	UserCartConfirmationRequired bool `json:"user_cart_confirmation_required" wire:"required"`
	// NaturalLanguageDescription is what the user confirmed, in words; not empty.
	NaturalLanguageDescription string `json:"natural_language_description" wire:"required"`
	// Merchants and SKUs bound the choice; none means any.
	Merchants []string `json:"merchants,omitempty"`
	SKUs      []string `json:"skus,omitempty"`
	// RequiresRefundability allows refundable items only; nil means false.
	RequiresRefundability *bool `json:"requires_refundability,omitempty"`
	// IntentExpiry is a time of ISO 8601, with [ParseTime] to read it.
	IntentExpiry string `json:"intent_expiry" wire:"required"`
}

// CartContents is what a merchant offers.
type CartContents struct {
	ID string `json:"id" wire:"required"` // unique for the merchant
	// UserCartConfirmationRequired wants the user to approve the cart.
	UserCartConfirmationRequired bool           `json:"user_cart_confirmation_required" wire:"required"`
	PaymentRequest               PaymentRequest `json:"payment_request" wire:"required"`
	// CartExpiry, a time of ISO 8601, is how long the price holds.
	CartExpiry   string `json:"cart_expiry" wire:"required"`
	MerchantName string `json:"merchant_name" wire:"required"`
}

// CartMandate is an offer with the merchant's signature.
type CartMandate struct {
	Contents CartContents `json:"contents" wire:"required"`
	// MerchantAuthorization is a JWT in compact form over the hash of the contents.
	// An offer without one may be shown and may not be paid.
	MerchantAuthorization string `json:"merchant_authorization,omitempty"`
}

// PaymentMandateContents is what a user authorizes.
type PaymentMandateContents struct {
	// PaymentMandateID is unique: a second payment under it is a replay.
	PaymentMandateID string `json:"payment_mandate_id" wire:"required"`
	// PaymentDetailsID is the id of the cart's PaymentDetailsInit.
	PaymentDetailsID string `json:"payment_details_id" wire:"required"`
	// PaymentDetailsTotal equals that of the cart.
	PaymentDetailsTotal PaymentItem     `json:"payment_details_total" wire:"required"`
	PaymentResponse     PaymentResponse `json:"payment_response" wire:"required"`
	// MerchantAgent is the payee.
	MerchantAgent string `json:"merchant_agent" wire:"required"`
	// Timestamp is when it was made, a time of ISO 8601.
	Timestamp string `json:"timestamp" wire:"required"`
}

// PaymentMandate is an authorization with the user's proof.
type PaymentMandate struct {
	PaymentMandateContents PaymentMandateContents `json:"payment_mandate_contents" wire:"required"`
	// UserAuthorization is an SD-JWT with key binding. A mandate without one may not
	// be paid.
	UserAuthorization string `json:"user_authorization,omitempty"`
}
