package ap2

import "encoding/json"

// DataKey is a key of the data of an [a2a.DataPart] that holds an AP2 object. A
// text under risk_data may stand beside it.
type DataKey string

// The keys and, by their names, the objects under them.
const (
	KeyContactAddress    DataKey = "contact_picker.ContactAddress"
	KeyPaymentMethodData DataKey = "payment_request.PaymentMethodData"
	KeyCartMandate       DataKey = "ap2.mandates.CartMandate"
	KeyIntentMandate     DataKey = "ap2.mandates.IntentMandate"
	KeyPaymentMandate    DataKey = "ap2.mandates.PaymentMandate"
)

// EnumValues lists the known keys.
func (DataKey) EnumValues() []string {
	return []string{
		string(KeyContactAddress), string(KeyPaymentMethodData), string(KeyCartMandate),
		string(KeyIntentMandate), string(KeyPaymentMandate),
	}
}

// ShippingType is what the delivery of an order is called. AP2 does not close the
// set, so other values are accepted; [ShippingType.Known] tells them apart.
type ShippingType string

// The shipping types AP2 names.
const (
	ShippingShipping ShippingType = "shipping"
	ShippingDelivery ShippingType = "delivery"
	ShippingPickup   ShippingType = "pickup"
)

// Known reports whether t is one of the types AP2 names.
func (t ShippingType) Known() bool {
	switch t {
	case ShippingShipping, ShippingDelivery, ShippingPickup:
		return true
	default:
		return false
	}
}

// ContactAddress is a postal address (W3C Contact Picker). All members are
// optional.
type ContactAddress struct {
	City              string   `json:"city,omitempty"`
	Country           string   `json:"country,omitempty"` // ISO 3166-1 alpha-2 by convention
	DependentLocality string   `json:"dependent_locality,omitempty"`
	Organization      string   `json:"organization,omitempty"`
	PhoneNumber       string   `json:"phone_number,omitempty"`
	PostalCode        string   `json:"postal_code,omitempty"`
	Recipient         string   `json:"recipient,omitempty"`
	Region            string   `json:"region,omitempty"` // state or province
	SortingCode       string   `json:"sorting_code,omitempty"`
	AddressLine       []string `json:"address_line,omitempty"`
}

// PaymentCurrencyAmount is an amount of money in major units, such as 1.50 for
// one dollar and fifty cents.
type PaymentCurrencyAmount struct {
	// Currency is a code of ISO 4217: three upper-case letters.
	Currency string `json:"currency" wire:"required"`
	// Value is the number as it was written. Reckon with
	// [PaymentCurrencyAmount.Rat], never in binary floating point.
	Value json.Number `json:"value" wire:"required"`
}

// PaymentItem is a line of an order, or its total.
type PaymentItem struct {
	Label  string                `json:"label" wire:"required"`
	Amount PaymentCurrencyAmount `json:"amount" wire:"required"`
	// Pending says that the amount may still change.
	Pending *bool `json:"pending,omitempty"`
	// RefundPeriod is in days, 0 or more; nil is AP2's default of 30.
	RefundPeriod *int `json:"refund_period,omitempty"`
}

// PaymentShippingOption is a way of delivery.
type PaymentShippingOption struct {
	ID     string                `json:"id" wire:"required"` // unique among the options
	Label  string                `json:"label" wire:"required"`
	Amount PaymentCurrencyAmount `json:"amount" wire:"required"`
	// Selected marks the choice, at most one of the options; nil means false.
	Selected *bool `json:"selected,omitempty"`
}

// PaymentOptions is what a merchant wants to know of the payer. Nil means false,
// for RequestShipping true.
type PaymentOptions struct {
	RequestPayerName  *bool        `json:"request_payer_name,omitempty"`
	RequestPayerEmail *bool        `json:"request_payer_email,omitempty"`
	RequestPayerPhone *bool        `json:"request_payer_phone,omitempty"`
	RequestShipping   *bool        `json:"request_shipping,omitempty"`
	ShippingType      ShippingType `json:"shipping_type,omitempty"`
}

// PaymentMethodData is a way to pay.
type PaymentMethodData struct {
	// SupportedMethods is one method, despite its name, such as CARD or
	// https://www.x402.org/.
	SupportedMethods string `json:"supported_methods" wire:"required"`
	// Data is what the method needs.
	Data map[string]any `json:"data,omitzero"`
}

// PaymentDetailsModifier changes the price for a way to pay.
type PaymentDetailsModifier struct {
	SupportedMethods string `json:"supported_methods" wire:"required"` // as in [PaymentMethodData]
	// Total replaces that of the order.
	Total                  *PaymentItem  `json:"total,omitempty"`
	AdditionalDisplayItems []PaymentItem `json:"additional_display_items,omitempty"`
	// Data is any JSON value.
	Data any `json:"data,omitempty"`
}

// PaymentDetailsInit is what is to be paid.
type PaymentDetailsInit struct {
	// ID comes back as PaymentResponse.RequestID and as
	// PaymentMandateContents.PaymentDetailsID.
	ID              string                   `json:"id" wire:"required"`
	DisplayItems    []PaymentItem            `json:"display_items" wire:"required"`
	ShippingOptions []PaymentShippingOption  `json:"shipping_options,omitempty"`
	Modifiers       []PaymentDetailsModifier `json:"modifiers,omitempty"`
	// Total is 0 or more, in the currency of all items.
	Total PaymentItem `json:"total" wire:"required"`
	// Description, an extension, is a note on the order.
	Description string `json:"description,omitempty"`
}

// PaymentRequest asks to pay for an order (W3C Payment Request).
type PaymentRequest struct {
	MethodData      []PaymentMethodData `json:"method_data" wire:"required"` // one or more
	Details         PaymentDetailsInit  `json:"details" wire:"required"`
	Options         *PaymentOptions     `json:"options,omitempty"`
	ShippingAddress *ContactAddress     `json:"shipping_address,omitempty"`
}

// PaymentResponse is how a user chose to pay.
type PaymentResponse struct {
	RequestID  string `json:"request_id" wire:"required"`  // that of the PaymentDetailsInit
	MethodName string `json:"method_name" wire:"required"` // one of the methods of the request
	// Details is the credential or token. It is a secret: keep it out of logs.
	Details         map[string]any         `json:"details,omitzero"`
	ShippingAddress *ContactAddress        `json:"shipping_address,omitempty"`
	ShippingOption  *PaymentShippingOption `json:"shipping_option,omitempty"`
	PayerName       string                 `json:"payer_name,omitempty"`
	PayerEmail      string                 `json:"payer_email,omitempty"`
	PayerPhone      string                 `json:"payer_phone,omitempty"`
}
