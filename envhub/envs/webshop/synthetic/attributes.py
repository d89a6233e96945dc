"""What a product can be said to be: attributes, the kinds of product they fit, and other words for them.

Invariant: an attribute means the same for every kind of product, so that kinds share attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from envhub.envs.webshop.synthetic.phrases import Phrase, rows

Form = Literal["is", "with", "for"]
"""How a wish is worded: an adjective, "with" a thing, or "for" a use."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """``paraphrases`` complete "it should ..."; ``variant`` is a spelling that the reward's fuzzy match takes for the same."""

    phrase: Phrase
    form: Form
    pools: tuple[str, ...]
    paraphrases: tuple[str, ...]
    variant: str

    @property
    def name(self) -> str:
        return self.phrase.text


_TABLE = """
is | machine ~washable | fabric bedding | machine washable fabric | go in the washing machine; come clean in an ordinary laundry load
is | hand ~wash | fabric bedding | hand wash only | be fine to rinse in the sink; want no machine, just a gentle rinse
is | ~quick ~drying | fabric sport | quick drying fabric | not stay damp for long; be dry again within the hour
is | moisture ~wicking | fabric | moisture wicking fabric | pull sweat away from the body; keep me dry when i sweat
with | ~long sleeve | top | long sleeves | cover my arms down to the wrist; reach down to my wrists
with | ~short sleeve | top | short sleeves | leave the forearms bare; end above the elbow
is | ~slim ~fit | top bottom | slim fit cut | sit close to the body; follow my figure
is | ~relaxed ~fit | top bottom | relaxed fit cut | not be tight anywhere; leave room to move
with | ~elastic waistband | bottom | elastic waistbands | stretch around the waist; need no belt to stay up
with | ~high waist | bottom | high waisted waist | come up over the belly button; sit above the hips
with | drawstring closure | bottom sleep | drawstring closures | tie with a cord; be pulled tight with a string
with | button closure | top | button closures | do up with buttons; have buttons down the front
with | zipper closure | top bag | zipper closures | zip shut; close with a zip
is | polyester cotton | fabric | polyester cotton blend | mix natural and man-made fibres; be a half synthetic weave
with | ~classic ~fit | top | classic fit cut | have an ordinary cut; be cut the traditional way
is | tummy control | bottom swim | tummy control panel | flatten my stomach; hold my belly in
with | ~rubber sole | shoe | rubber soles | have a grippy bottom like a tire; stand on natural gum
is | ~non ~slip | shoe tool mat | non slip surface | not slide around; keep its grip on smooth floors
with | memory foam | shoe cushion | memory foams | mold itself to my body; spring back slowly after pressing
with | arch support | shoe | arch supports | be kind to flat feet; hold up the middle of the foot
with | ~steel toe | shoe | steel toes | protect my feet from falling tools; have a metal cap in front
with | lace closure | shoe | lace closures | tie with strings; be laced up
with | ankle strap | shoe | ankle straps | buckle above the foot; have a band around the lower leg
is | ~open ~toe | shoe | open toe front | leave my toes free; show the toes
is | ~genuine leather | leather | genuine leathers | be made of real hide; not be imitation hide
is | ~faux leather | leather furniture | faux leathers | be vegan but look like hide; only look like hide
is | hand ~stitched | leather | hand stitched seams | be sewn without a machine; have seams done by a person
is | ~anti ~theft | bag | anti theft design | keep pickpockets out; be safe from thieves
is | ~carry ~on | bag | carry on friendly | fit in the overhead bin; be small enough for the cabin
with | shoulder strap | bag sport | shoulder straps | be worn over one side; hang from my upper body
is | fragrance ~free | skin hair | free of fragrance | have no smell; be without perfume
is | paraben ~free | skin hair makeup | free of paraben | leave out that family of preservatives; go without the usual preservatives
is | cruelty ~free | skin hair makeup oral | free of cruelty | never be tested on animals; be kind to rabbits and mice
for | ~sensitive skin | skin makeup | sensitive skins | not irritate me; be gentle when i get rashes easily
for | ~dry skin | skin | dry skins | help when my face feels tight and flaky; soothe flaky patches
with | ~hyaluronic acid | skin | hyaluronic acids | contain the well known moisture binder; hold water like the serum of fashion
with | vitamin c | skin food | vitamin c complex | contain ascorbic stuff; have what lemons are famous for
is | dermatologist ~tested | skin | dermatologist tested formula | be checked by a doctor; have been tried under medical supervision
is | oil ~free | skin makeup | free of oil | not feel greasy; have no fatty film
is | ~anti ~aging | skin | anti aging care | smooth out wrinkles; make me look younger
for | ~fine lines | skin | fine line | soften crow's feet; work on small wrinkles
with | coconut oil | skin hair | coconut oils | contain fat from a tropical nut; be made with palm fruit fat
with | tea tree | skin hair oral | tea trees | contain that sharp australian leaf extract; smell a little like eucalyptus
with | shea butter | skin hair | shea butters | contain african nut fat; be rich with karite
is | sulfate ~free | hair | free of sulfate | not foam with harsh soaps; go easy on the suds
with | argan oil | hair | argan oils | contain moroccan kernel extract; have the moroccan stuff in it
for | ~curly hair | hair | curly hairs | keep my ringlets bouncy; tame ringlets
for | ~damaged hair | hair | damaged hairs | repair split ends; bring brittle strands back to life
for | hair growth | hair | hair grows | make it grow back fuller; help against thinning
with | heat protection | hair | heat protect | shield strands from the flat iron; let me blow dry without worry
is | ~long ~lasting | makeup battery candle | lasting long | hold all day; not give out after an hour
is | water ~proof | makeup sport case | proof of water | survive rain and splashes; stand getting wet
is | highly ~pigmented | makeup | highly pigmented tone | show strong color in one stroke; be vivid
is | ~easy ~apply | makeup skin | easy to apply | go on without a mirror; be simple to put on
is | fluoride ~free | oral | free of fluoride | leave out the usual anti cavity mineral; have no added mineral against cavities
for | ~bad breath | oral | bad breaths | keep my mouth smelling fine; help against morning mouth
for | teeth ~whitening | oral | tooth whitening teeth | brighten my smile; take off coffee stains
for | ~sensitive teeth | oral | sensitive tooth | not hurt with cold drinks; be mild on my gums and molars
is | ~stainless steel | tool kitchen | stainless steels | not rust in the sink; be made of rustless metal
is | ~easy ~clean | tool kitchen pet mat | easy to clean | wipe off in seconds; take no scrubbing
is | ~easy ~carry | tool sport audio | easy to carry | be no burden on the road; come along in a bag
with | ~ergonomic handle | tool kitchen | ergonomic handles | lie well in the hand; not tire the wrist
is | travel size | tool skin oral | travel sizes | be small enough for a trip; pass airport security
with | storage case | tool audio | storage cases | come with a box to keep it in; have its own box
is | ~heavy ~duty | tool outdoor office | heavy duty build | put up with rough work; be built for hard use
is | ~fast ~charging | battery cable | fast charging speed | fill up within half an hour; not take all night to power up
with | ~rechargeable battery | battery | rechargeable batteries | not need new cells all the time; power up again from the wall
with | usb port | battery computing | usb ports | take the common flat plug; have a socket for my flash drive
with | batteries ~included | battery toy | battery included | work right out of the box; not make me buy cells separately
is | noise ~cancelling | audio | noise cancelling mode | shut out the traffic; keep the train noise out
with | stereo sound | audio video | stereo sounds | play left and right channels; sound wide
is | hands ~free | audio | hands free calls | let me talk while i drive; not need holding
with | ~wireless bluetooth | audio computing | wireless bluetooth link | pair with my phone without a cord; connect through the air
with | ~deep bass | audio | deeper bass | rumble on the low notes; make the low notes boom
is | ~high definition | video | high definitions | give a sharp picture; show crisp detail
is | 4k ~ultra hd | video | 4k ultra hd ready | have four times the usual lines; show the finest picture there is
with | night vision | video | night visions | see in the dark; work after sunset
with | motion detection | video | motion detections | notice when someone moves; wake up when somebody walks by
with | ~wide angle | video | wide angles | catch the whole room; take in a broad view
is | gold ~plated | cable | gold plated plugs | have contacts that do not tarnish; shine yellow at the plugs
is | ~high speed | cable computing | high speeds | move a lot of data quickly; not slow my downloads
is | plug ~play | cable computing | plug and play | need no drivers; work as soon as it is connected
is | aluminum alloy | cable case tool | aluminum alloys | be light silvery metal; be made from airplane metal
with | ~braided cord | cable | braided cords | have woven insulation; resist fraying
is | shock ~proof | case | proof of shock | survive a fall; take a tumble
with | ~tempered glass | case light | tempered glasses | have a hardened pane; not shatter easily
with | screen protection | case | screen protections | guard the display; keep scratches off the display
for | ~wireless ~charging | case battery | wireless charger charging | power up on a pad; not need a plug
is | carbon fiber | case sport | carbon fibers | have that woven racing look; be as light as a racing car part
with | ~dual band | computing | dual bands | talk on both radio frequencies; use two frequencies
with | ~quad core | computing | quad cores | run four threads at a time; have a four part processor
with | ~backlit keyboard | computing | backlit keyboards | let me type in the dark; glow under the keys
is | ~solid wood | furniture decor | solid woods | be made of massive timber; not be chipboard
is | ~easy ~assemble | furniture | easy to assemble | go together without tools; be put up in ten minutes
is | mid century | furniture decor light | mid century style | look like the fifties; have that retro fifties look
with | storage space | furniture | storage spaces | have room to put things away; hide my clutter
is | space ~saving | furniture office | space saving size | fit a tiny apartment; not take up much floor
with | metal legs | furniture | metal leg | stand on iron feet; have iron feet
with | lumbar support | furniture | lumbar supports | be good for my lower back; hold up my lower back
for | ~living room | furniture decor light | living rooms | suit the space where we watch tv; go next to our couch
for | ~dining room | furniture decor light | dining rooms | suit the space where we eat; go where we have supper
is | ~high density | cushion | high density foam | not go flat; feel firm
with | ~removable cover | cushion pet | removable covers | have a shell that comes off; let me take off the outside
is | ~super ~soft | cushion bedding sleep | super soft touch | feel like a cloud; be cuddly
is | ~dishwasher ~safe | kitchen | dishwasher safe parts | not need washing by hand; go in the machine with the plates
is | bpa ~free | kitchen baby | free of bpa | leave out that plastic chemical; be free of that hormone like plastic stuff
is | food grade | kitchen | food grades | be safe for what we eat; be fit for holding meals
is | ~non ~stick | kitchen | non stick layer | let eggs slide right off; need hardly any fat
is | heat ~resistant | kitchen candle | heat resistance | not melt on the stove; stand high temperatures
is | leak ~proof | kitchen bag baby | proof of leak | not spill in my backpack; hold tight upside down
is | oven ~safe | kitchen | oven safe body | go in to bake; be fine at baking temperature
with | led light | light toy | led lights | use modern low power diodes; glow with diodes
is | energy ~efficient | light appliance | energy efficiency | not drive up my electric bill; use little power
with | remote control | light video toy | remote controls | be switched from the sofa; have a clicker
with | glass shade | light | glass shades | have a see-through hood; soften the bulb behind a pane
with | ~brushed nickel | light appliance | brushed nickels | have a satin metal finish; have a dull silver finish
is | gluten ~free | food snack bake | free of gluten | be safe for celiacs; have no wheat protein
is | sugar ~free | food drink snack | free of sugar | not be sweetened; be fine for a diabetic
is | ~low carb | food snack bake | low carbs | suit my diet without bread; be light on starch
is | ~non gmo | food drink snack bake | non gmo verified | not come from engineered plants; be grown from old fashioned seeds
is | dairy ~free | food drink bake | free of dairy | have no milk in it; be fine for the lactose intolerant
with | ~high protein | food snack | high proteins | build muscle; fill me up after the gym
is | plant ~based | food drink | plant based recipe | be vegan; have nothing from animals
is | nut ~free | snack bake | free of nut | be safe with a peanut allergy; be allowed at our school
is | additive ~free | food drink snack | free of additive | have a short list of contents; have no e numbers
is | fat ~free | food snack | free of fat | be the leanest there is; not make me gain weight
is | ~low sodium | food | lower sodium | be light on salt; not raise my blood pressure
with | ~dietary fiber | food bake | dietary fibers | help digestion; be full of roughage
is | keto ~friendly | snack drink | keto friendly recipe | fit a high fat diet; keep me in ketosis
is | kosher ~certified | food bake drink | kosher certified batch | be blessed by a rabbi; be fine for passover guests
is | individually ~wrapped | snack drink | individually wrapped packs | come in single portions; have each piece packed alone
is | shelf ~stable | food drink | shelf stable product | keep without a fridge; last in the pantry
is | caffeine ~free | drink | free of caffeine | not keep me awake; be fine at bedtime
with | ~natural ingredients | drink food skin pet | natural ingredient | have nothing from a lab; come straight from nature
is | freeze ~dried | snack pet drink | freeze dried pieces | have had all water drawn out cold; be crunchy and light as air
is | grain ~free | pet | free of grain | have no corn or wheat for my animal; spare a belly that hates cereal
is | ~light weight | sport bag shoe | light weight build | weigh next to nothing; not pull me down
is | sweat ~resistant | sport audio | sweat resistance | stand a hard workout; not mind when i perspire
with | ~adjustable strap | sport pet baby | adjustable straps | fit everybody with a buckle; be made longer or shorter
is | ~folding | sport outdoor office | folding frame | pack flat; collapse for the trunk
is | ~water ~resistant | bag outdoor | water resistance | shed drizzle; keep the inside dry in a shower
is | ~non ~toxic | toy baby candle | non toxic paint | be safe to chew on; hold no poisons
is | ~soft plush | toy pet sleep | soft plush cloth | be good to hug; be fluffy all over
is | acid ~free | office | free of acid | not turn yellow over the years; keep drawings for decades
is | ~recycled paper | office | recycled papers | be made from old newspapers; spare the forests
is | ~refillable | office | refillable body | take new inserts; not be thrown out when empty
is | hand ~painted | decor | hand painted finish | be colored in with a brush; be one of a kind brush work
is | eco ~friendly | decor kitchen candle | eco friendly material | be good for the planet; not harm nature
is | ~ready ~hang | decor | ready to hang | go straight on the wall; come with hooks
is | ~double ~sided | decor mat bedding | double sided print | look good from back and front; be usable either way up
is | fade ~resistant | decor bedding outdoor | fade resistance | keep its colors; not go pale in the sun
is | weather ~resistant | outdoor | weather resistance | stay out all year; take sun and snow
is | rust ~proof | outdoor | proof of rust | not go brown on the balcony; not corrode
is | soy wax | candle | soy waxes | burn cleaner than paraffin; be poured from bean fat
is | ~quiet motor | appliance | quiet motors | not wake the baby; run without a racket
with | ~automatic shutoff | appliance candle | automatic shutoffs | turn itself off; be safe if i forget it
"""

ATTRIBUTES: Mapping[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        Attribute(
            Phrase.of(phrase),
            cast(Form, form),
            tuple(pools.split()),
            tuple(each.strip() for each in others.split(";")),
            variant,
        )
        for form, phrase, pools, variant, others in rows(_TABLE, 5)
    )
}

POOLS: Mapping[str, tuple[Attribute, ...]] = {
    pool: tuple(attribute for attribute in ATTRIBUTES.values() if pool in attribute.pools)
    for pool in sorted({pool for attribute in ATTRIBUTES.values() for pool in attribute.pools})
}

_CONFLICTS: tuple[frozenset[str], ...] = tuple(
    frozenset(names)
    for names in (
        ("slim fit", "relaxed fit", "classic fit"),
        ("long sleeve", "short sleeve"),
        ("genuine leather", "faux leather"),
        ("machine washable", "hand wash"),
        ("steel toe", "open toe"),
        ("button closure", "zipper closure"),
    )
)


def without_conflicts(attributes: Iterable[Attribute]) -> list[Attribute]:
    """Those that no earlier one rules out."""
    kept: list[Attribute] = []
    for attribute in attributes:
        rivals = {name for group in _CONFLICTS if attribute.name in group for name in group}
        if not any(other.name in rivals for other in kept):
            kept.append(attribute)
    return kept
